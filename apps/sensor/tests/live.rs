//! A sensor that is listened to: captures and made packets, sent over loopback.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod capture_file;

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use capture_file::{STEP_600_RPM, packets, packets_of, payloads, read, real_recording};
use lidar_sensor::{
    Model, ReturnMode, Turn,
    source::{
        Live, LiveConfig, PartialTurns, RecordingConfig, Source, SourceError, SourceSpec,
        StampClock,
    },
};

/// Listens on a free port of loopback.
fn config() -> LiveConfig {
    LiveConfig {
        bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        silence: Duration::from_millis(200),
        ..LiveConfig::default()
    }
}

fn sender(live: &Live) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(live.local_address()).unwrap();
    socket
}

/// All turns until the sensor is silent.
fn hear(live: &mut Live) -> Vec<Turn> {
    let mut turns = Vec::new();
    loop {
        match live.next_scan() {
            Ok(turn) => turns.push(turn.unwrap()),
            Err(SourceError::Silent { .. }) => return turns,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_replayed_sensor_gives_the_turns_of_its_capture() {
    let expected = match real_recording() {
        Some(path) => payloads(&read(&path, RecordingConfig::default()).unwrap().0),
        None => packets(ReturnMode::Strongest, STEP_600_RPM, 379)
            .map(|packet| packet.to_vec())
            .collect(),
    };
    let mut live = Live::open(config()).unwrap();
    let socket = sender(&live);
    let data = expected.clone();
    let replay = thread::spawn(move || {
        for packet in &data {
            socket.send(packet).unwrap();
            // No faster than twenty sensors.
            thread::sleep(Duration::from_micros(30));
        }
    });
    let turns = hear(&mut live);
    replay.join().unwrap();
    assert_eq!(payloads(&turns), expected);
    let statistics = live.statistics();
    assert_eq!(
        (statistics.dropped, statistics.lost),
        (0, 0),
        "{statistics}"
    );
    assert_eq!(live.model(), Some(Model::Vlp32c));
    assert!(turns.last().unwrap().partial);
}

#[test]
fn what_the_kernel_drops_is_counted_and_marks_the_turn() {
    let sent = 400;
    let mut live = Live::open(LiveConfig {
        buffer: 1,
        ..config()
    })
    .unwrap();
    assert!(live.granted_buffer().unwrap() < 1 << 17);
    let socket = sender(&live);
    let data: Vec<_> = packets(ReturnMode::Strongest, STEP_600_RPM, sent).collect();
    // Nobody reads meanwhile, so what does not fit is dropped.
    for packet in &data[..sent - 1] {
        socket.send(packet).unwrap();
    }
    let mut turns = hear(&mut live);
    let held = live.statistics().packets;
    assert!(held < 200, "{held} packets of {sent} were held");
    // The next packet tells what was dropped before it, and so does the sensor's clock.
    socket.send(&data[sent - 1]).unwrap();
    turns.extend(hear(&mut live));
    let statistics = live.statistics();
    assert_eq!(statistics.packets + statistics.dropped, sent as u64);
    assert_eq!(statistics.lost, statistics.dropped, "{statistics}");
    assert!(statistics.to_string().contains("dropped by the kernel"));
    let lost: u64 = turns.iter().map(|turn| turn.lost).sum();
    assert_eq!(lost, statistics.lost);
    assert!(turns.iter().all(|turn| turn.partial));
}

#[test]
fn other_hosts_and_other_datagrams_are_counted_apart() {
    let mut live = Live::open(LiveConfig {
        host: Some("127.0.0.2".parse().unwrap()),
        ..config()
    })
    .unwrap();
    let other = sender(&live);
    let sensor = UdpSocket::bind("127.0.0.2:0").unwrap();
    sensor.connect(live.local_address()).unwrap();
    for packet in packets(ReturnMode::Strongest, STEP_600_RPM, 10) {
        sensor.send(&packet).unwrap();
        let foreign = packets_of(Model::Vlp16, ReturnMode::Last, 40.0, 1)
            .next()
            .unwrap();
        other.send(&foreign).unwrap();
    }
    sensor.send(&[0; 512]).unwrap();
    sensor.send(&[0; 1207]).unwrap();
    sensor.send(&[0; 9_000]).unwrap();
    sensor.send(&[]).unwrap();
    let damaged = {
        let mut packet = packets(ReturnMode::Last, 20.0, 1).next().unwrap();
        packet[300] = 0;
        packet
    };
    sensor.send(&damaged).unwrap();
    let turns = hear(&mut live);
    assert_eq!(payloads(&turns).len(), 10);
    let statistics = live.statistics();
    assert_eq!(
        (
            statistics.other_host,
            statistics.wrong_size,
            statistics.damaged
        ),
        (10, 4, 1)
    );
}

#[test]
fn a_second_sensor_and_a_foreign_one_are_refused_by_name() {
    for (product, name) in [(0x22, "VLP-16"), (0xa1, "VLS-128")] {
        let mut live = Live::open(config()).unwrap();
        let socket = sender(&live);
        let mut two = packets(ReturnMode::Strongest, STEP_600_RPM, 2);
        socket.send(&two.next().unwrap()).unwrap();
        let mut foreign = two.next().unwrap();
        foreign[1205] = product;
        socket.send(&foreign).unwrap();
        let error = live.next_scan().unwrap_err();
        assert!(matches!(error, SourceError::Sensor { .. }));
        let port = live.local_address().port().to_string();
        let text = error.to_string();
        assert!(text.contains(name) && text.contains(&port), "{text}");
    }
}

#[test]
fn a_silent_sensor_is_an_error_that_names_the_address() {
    let mut live = Live::open(config()).unwrap();
    let address = live.local_address().to_string();
    let error = live.next_scan().unwrap_err().to_string();
    assert!(
        error.contains(&address) && error.contains("200ms"),
        "{error}"
    );
    // It may begin later.
    let socket = sender(&live);
    for packet in packets(ReturnMode::Strongest, STEP_600_RPM, 170) {
        socket.send(&packet).unwrap();
    }
    assert!(live.next_scan().unwrap().is_some());
    assert!(matches!(
        Live::open(LiveConfig {
            bind: live.local_address(),
            ..config()
        }),
        Err(SourceError::Bind { .. })
    ));
}

#[test]
fn stamps_are_of_the_host_or_of_the_sensor() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for clock in [StampClock::Host, StampClock::Sensor] {
        let mut live = Live::open(LiveConfig { clock, ..config() }).unwrap();
        let socket = sender(&live);
        let before = now();
        // A sensor that is 100 s ahead.
        let hour = Duration::from_secs(3_600).as_nanos();
        let start = (before + Duration::from_secs(100)).as_nanos();
        let within = (start % hour / 1_000) as u32;
        for mut packet in packets(ReturnMode::Strongest, STEP_600_RPM, 20) {
            let micros = u32::from_le_bytes(packet[1200..1204].try_into().unwrap());
            let micros = (within + micros) % 3_600_000_000;
            packet[1200..1204].copy_from_slice(&micros.to_le_bytes());
            socket.send(&packet).unwrap();
        }
        let turns = hear(&mut live);
        let stamps: Vec<_> = turns[0]
            .scan
            .packets
            .iter()
            .map(|p| p.stamp.as_nanos())
            .collect();
        let first = u128::from(stamps[0]);
        match clock {
            StampClock::Host => assert!((before.as_nanos()..now().as_nanos()).contains(&first)),
            StampClock::Sensor => {
                assert_eq!(first, start / 1_000 * 1_000);
                let steps = stamps.windows(2).map(|pair| pair[1] - pair[0]);
                assert!(
                    steps
                        .into_iter()
                        .all(|step| step == 663_000 || step == 664_000)
                );
            }
        }
    }
}

#[test]
fn multicast_is_joined_where_the_machine_has_it() {
    let mut live = Live::open(LiveConfig {
        bind: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        group: Some("239.255.23.68".parse().unwrap()),
        // Loopback.
        interface: 1,
        ..config()
    })
    .unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
    let group = SocketAddr::from(([239, 255, 23, 68], live.local_address().port()));
    for packet in packets(ReturnMode::Strongest, STEP_600_RPM, 5) {
        socket.send_to(&packet, &group.into()).unwrap();
    }
    assert_eq!(payloads(&hear(&mut live)).len(), 5);
}

#[test]
fn the_source_ends_after_as_many_turns_as_were_asked_for() {
    let live = Live::open(LiveConfig {
        turns: Some(2),
        ..config()
    })
    .unwrap();
    let socket = sender(&live);
    for packet in packets(ReturnMode::Strongest, STEP_600_RPM, 170) {
        socket.send(&packet).unwrap();
    }
    let mut source = Source::Live(Box::new(live));
    assert!(source.next_scan().unwrap().is_some());
    assert!(source.next_scan().unwrap().is_some());
    assert_eq!(source.next_scan().unwrap(), None);
    assert_eq!(source.statistics().turns, 2);
}

#[test]
fn live_specs_are_checked() {
    let text = "udp:2369?bind=127.0.0.1&host=192.168.1.201&cut=90&clock=sensor&buffer=1000\
                &silence=2.5&partial=drop&turns=7&group=239.1.2.3&interface=2";
    let spec: SourceSpec = text.parse().unwrap();
    let expected = LiveConfig {
        bind: "127.0.0.1:2369".parse().unwrap(),
        group: Some("239.1.2.3".parse().unwrap()),
        interface: 2,
        host: Some("192.168.1.201".parse().unwrap()),
        cut: 9_000,
        clock: StampClock::Sensor,
        buffer: 1_000,
        silence: Duration::from_millis(2_500),
        partial: PartialTurns::Drop,
        turns: Some(7),
    };
    assert_eq!(spec, SourceSpec::Live(expected));
    assert_eq!(spec.to_string().parse(), Ok(spec));
    let refused = |text: &str| text.parse::<SourceSpec>().unwrap_err().to_string();
    assert!(refused("udp:70000").contains("a UDP port"));
    assert!(refused("udp:1?group=10.0.0.1").contains("multicast"));
    assert!(refused("udp:1?group=ff02::1").contains("family"));
    assert!(refused("udp:1?clock=gps").contains("host or sensor"));
    assert!(refused("udp:1?silence=nan").contains("0.001"));
    assert!(refused("udp:1?buffer=0").contains("bytes"));
    assert!(refused("udp:1?port=3").contains("no option \"port\""));
}
