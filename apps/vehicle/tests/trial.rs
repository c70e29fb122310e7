//! Trials over the in-process transport, against an edge that the test plays.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod played;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use exchange::Topics;
use latency_timeline::{Point, Status, Timeline};
use lidar_sensor::Convention;
use tokio::sync::watch;
use transport_api::{
    Message, MessageId, Qos, Sample, Sequence, SubscriberExt, TopicFilter, Transport,
    TransportConfig, TransportFactory, local,
};
use vehicle::{DataType, Feed, Missed, Progress, Settings, Source, Trial};

use played::{Answering, CLOCK, HANDSHAKE, PlayedEdge, list, returned, settings};

/// Runs a trial of `samples` scans at `rate` against an edge that is played by `play`.
async fn trial(
    samples: u64,
    rate: f64,
    play: impl FnMut(&mut Answering, u64, &Sample) + Send + 'static,
) -> Trial {
    let factory = local::Factory::default();
    let config = TransportConfig::parse("local:trial").unwrap();
    let edge = PlayedEdge::start(&factory, &config, play).await;
    let here = factory.open(&config).await.unwrap();
    let trial = drive(&here, samples, rate).await;
    edge.end().await;
    trial
}

async fn drive(transport: &Arc<dyn Transport>, samples: u64, rate: f64) -> Trial {
    drive_with(transport, settings(samples, rate)).await
}

/// Takes the settings, so that whoever looks on sees the end.
async fn drive_with(transport: &Arc<dyn Transport>, settings: Settings) -> Trial {
    let feed = Feed::new(Vec::new(), DataType::Scan, Convention::RosCompat).unwrap();
    let (_stop, stopped) = watch::channel(false);
    vehicle::drive(
        &**transport,
        feed,
        &settings,
        None,
        stopped,
        |_: Progress| {},
    )
    .await
    .unwrap()
}

fn statuses(trial: &Trial) -> Vec<Status> {
    trial.samples.iter().map(|sample| sample.status).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_leave_on_schedule_whether_or_not_answers_come() {
    let trial = trial(20, 200.0, |edge, n, scan| {
        // The last echo alone is answered.
        if n == 20 {
            edge.answer(scan.meta.id.unwrap());
        }
    })
    .await;
    assert_eq!(statuses(&trial), [Status::Missed; 20]);
    assert_eq!(trial.missed, Some(Missed { up: 20, down: 0 }));
    assert_eq!(trial.missing(), [[HANDSHAKE, HANDSHAKE + 19]]);
    assert_eq!(trial.publisher.accepted, HANDSHAKE + 21);
    let at = |point| -> Vec<i64> {
        let samples = trial.samples.iter();
        samples.map(|s| s.timeline.get(point).unwrap()).collect()
    };
    for pair in at(Point::Scheduled).windows(2) {
        assert_eq!(pair[1] - pair[0], 5_000_000);
    }
    let sent = at(Point::Start);
    assert!(sent.iter().zip(at(Point::Scheduled)).all(|(t, s)| *t >= s));
    // The call that published returned; in process nothing is acknowledged.
    let returned = at(Point::ScanReturned);
    assert!(returned.iter().zip(&sent).all(|(r, t)| r > t));
    assert!(
        trial
            .samples
            .iter()
            .all(|s| s.timeline.get(Point::ScanAcknowledged).is_none())
    );
    assert!(trial.began.monotonic_ns < sent[0] && returned[19] < trial.ended.monotonic_ns);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_told_apart() {
    let trial = trial(6, 50.0, |edge, n, scan| {
        let id = scan.meta.id.unwrap();
        match n {
            // Twice the same answer, as a transport may deliver it.
            0 => {
                let answer = edge.ids.next_id();
                edge.send(list(), Some(answer), Some(id));
                edge.send(list(), Some(answer), Some(id));
            }
            // To a scan of somebody else, and to none.
            1 => {
                let strange = MessageId {
                    source: id.source ^ 1,
                    ..id
                };
                edge.send(list(), None, Some(strange));
                edge.send(list(), None, None);
                edge.answer(id);
            }
            // No object list.
            2 => edge.send(Bytes::from_static(b"?"), None, Some(id)),
            // An answer to the handshake, late.
            3 => {
                let early = MessageId { seq: 0, ..id };
                edge.send(list(), None, Some(early));
                edge.answer(id);
            }
            // Answered with the next one.
            4 => {}
            5 => {
                edge.answer(id);
                let before = MessageId {
                    seq: id.seq - 1,
                    ..id
                };
                edge.answer(before);
            }
            _ => edge.answer(id),
        }
    })
    .await;
    use Status::Answered;
    assert_eq!(
        statuses(&trial),
        [
            Answered,
            Answered,
            Status::Missed,
            Answered,
            Answered,
            Answered
        ]
    );
    let repeats: Vec<_> = trial.samples.iter().map(|sample| sample.repeats).collect();
    assert_eq!(repeats, [1, 0, 0, 0, 0, 0]);
    assert_eq!(
        (trial.unrelated, trial.undecodable, trial.refused),
        (2, 1, 0)
    );
    assert!(!trial.is_complete());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_edge_stamps_after_an_answer_comes_with_the_next() {
    let trial = trial(4, 100.0, |edge, n, scan| {
        // The third answer gets lost on its way, so the stamps of the second do too.
        if n == 2 {
            let id = edge.ids.next_id();
            edge.previous = Timeline::default();
            edge.previous.set(Point::AnswerReturned, returned(id.seq));
        } else {
            edge.answer(scan.meta.id.unwrap());
        }
    })
    .await;
    use Status::Answered;
    let expected = [Answered, Answered, Status::Missed, Answered];
    assert_eq!(statuses(&trial), expected);
    assert_eq!(trial.missing(), [[HANDSHAKE + 2; 2]]);
    let stamps: Vec<_> = trial
        .samples
        .iter()
        .map(|sample| sample.timeline.get(Point::AnswerReturned))
        .collect();
    // The edge's answers are numbered from the handshake on; the last echo brings the last one.
    let expected = [Some(returned(3)), None, None, Some(returned(6))];
    assert_eq!(stamps, expected);
    assert_eq!(trial.missed, Some(Missed { up: 0, down: 1 }));
    let clocks: Vec<_> = trial
        .samples
        .iter()
        .map(|sample| sample.edge_clock)
        .collect();
    assert_eq!(clocks, [Some(CLOCK), Some(CLOCK), None, Some(CLOCK)]);
    for (n, sample) in trial.samples.iter().enumerate() {
        assert_eq!(sample.seq, HANDSHAKE + n as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transport_that_ends_keeps_what_was_measured() {
    let factory = local::Factory::default();
    let config = TransportConfig::parse("local:ends").unwrap();
    let [there, here] = [
        factory.open(&config).await.unwrap(),
        factory.open(&config).await.unwrap(),
    ];
    let topics = Topics::below("").unwrap();
    let filter = TopicFilter::from(&topics.scan);
    let schema = exchange::scan_schema().unwrap();
    let mut scans = there
        .subscriber(&filter, &schema, Qos::default())
        .await
        .unwrap();
    let schema = exchange::ObjectsFormat::default().schema().unwrap();
    let objects = there
        .publisher(&topics.objects, &schema, Qos::default())
        .await
        .unwrap();
    let (closing, ends) = (Arc::clone(&here), there);
    tokio::spawn(async move {
        let mut edge = Answering {
            objects,
            ids: Sequence::random(),
            previous: Timeline::default(),
        };
        while let Some(Ok(scan)) = scans.recv().await {
            let id = scan.meta.id.unwrap();
            edge.answer(id);
            if id.seq == HANDSHAKE + 2 {
                // What has arrived by then is still taken out.
                closing.close(Duration::from_secs(1)).await;
            }
        }
        drop(ends);
    });
    let trial = drive(&here, 30, 100.0).await;
    assert_eq!(trial.samples.len(), 30);
    assert!(trial.cut_short && !trial.is_complete());
    assert!(trial.count(Status::Answered) >= 3);
    assert!(trial.count(Status::Rejected) > 0, "{:?}", statuses(&trial));
    assert_eq!(trial.missed, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_the_transport_is_refused_before_anything_is_sent() {
    let factory = local::Factory::default();
    let config = TransportConfig::parse("local:small?max_payload=10").unwrap();
    let transport = factory.open(&config).await.unwrap();
    let settings = settings(1, 10.0);
    let (_stop, stopped) = watch::channel(false);
    for data_type in [DataType::Scan, DataType::Cloud] {
        let feed = Feed::new(Vec::new(), data_type, Convention::RosCompat).unwrap();
        let stop = stopped.clone();
        let trial = vehicle::drive(&*transport, feed, &settings, None, stop, |_| {}).await;
        let error = trial.unwrap_err().to_string();
        assert!(error.contains("raise `max_payload`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_type_on_the_topic_of_objects_is_named_with_ours() {
    let factory = local::Factory::default();
    let config = TransportConfig::parse("local:strange").unwrap();
    let transport = factory.open(&config).await.unwrap();
    let topics = Topics::below("").unwrap();
    let schema = exchange::cloud_schema().unwrap();
    let strange = transport
        .publisher(&topics.objects, &schema, Qos::default())
        .await
        .unwrap();
    let talking = tokio::spawn(async move {
        loop {
            drop(strange.try_publish(Message::new(Bytes::new())));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let settings = Settings {
        ready_timeout: Duration::from_millis(700),
        ..settings(1, 10.0)
    };
    let feed = Feed::new(Vec::new(), DataType::Scan, Convention::RosCompat).unwrap();
    let (_stop, stopped) = watch::channel(false);
    let trial = vehicle::drive(&*transport, feed, &settings, None, stopped, |_| {}).await;
    talking.abort();
    let error = trial.unwrap_err().to_string();
    for name in [
        "is an edge running",
        "sensor_msgs/PointCloud2",
        "vision_msgs/Detection3DArray",
    ] {
        assert!(error.contains(name), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_see_every_frame_with_its_list_and_what_does_not_fit_is_counted() {
    let factory = local::Factory::default();
    let config = TransportConfig::parse("local:viewed").unwrap();
    let play = |edge: &mut Answering, n: u64, scan: &Sample| {
        if n != 2 {
            edge.answer(scan.meta.id.unwrap());
        }
    };
    let edge = PlayedEdge::start(&factory, &config, play).await;
    let here = factory.open(&config).await.unwrap();
    let (frames, mut seen) = tokio::sync::mpsc::channel(4);
    let settings = Settings {
        frames: vec![frames],
        ..settings(6, 100.0)
    };
    let trial = drive_with(&here, settings).await;
    edge.end().await;
    let mut numbers = Vec::new();
    while let Some(frame) = seen.recv().await {
        let n = frame.seq - HANDSHAKE;
        assert_eq!(frame.data_type, DataType::Scan);
        assert_eq!(frame.timeline.get(Point::Start), Some(frame.start_ns));
        let answered = frame.objects.map(|objects| {
            assert_eq!(objects.source, Source::Edge);
            assert_eq!(objects.list, list());
            assert!(frame.timeline.get(Point::AnswerOut).is_some());
        });
        assert_eq!(answered.is_some(), n != 2);
        numbers.push(n);
    }
    assert_eq!(numbers, [0, 1, 2, 3]);
    assert_eq!(trial.unseen_frames, [2]);
}
