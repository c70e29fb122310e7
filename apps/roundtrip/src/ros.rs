//! A topic of a running ROS 1 master as the source of a trial, such as that of a sensor's driver.

use std::time::Duration;

use exchange::Topics;
use lidar_messages::{DecodeError, MessageType, PointCloud2, VelodyneScan};
use lidar_sensor::source::Sweep;
use lidar_sensor::{Convention, Turn};
use tokio::sync::watch;
use transport_api::{
    Qos, Registry, Sample, Schema, Subscriber, SubscriberExt, TopicFilter, TopicName,
    TransportConfig,
};
use vehicle::{Feed, Inlet};

use crate::cli::{LoadArgs, Patience};
use crate::failure::Failure;
use crate::load::{Load, Origin, Remark};
use crate::sides::{self, Opened};

/// How long no message may come before that is told.
const SILENCE: Duration = Duration::from_secs(2);

/// Messages that may wait here. More would not be sent anyway.
const DEPTH: usize = 2;

/// A topic of a master.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RosTopic {
    topic: TopicName,
    /// By the transport that all ROS nodes of this program are made of.
    master: TransportConfig,
}

impl RosTopic {
    /// Reads `TOPIC` or `TOPIC?master=URI`. Without a master there it is that of `ROS_MASTER_URI`, and
    /// this node's address is that of `ROS_IP` or `ROS_HOSTNAME`, as for any node.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::with_environment(text, |name| std::env::var(name).ok())
    }

    fn with_environment(
        text: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let (topic, options) = text.split_once('?').unwrap_or((text, ""));
        let mut master = None;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("master", uri)) => master = Some(uri.to_owned()),
                _ => {
                    return Err(format!(
                        "a topic has no option {option:?}; it has master=URI"
                    ));
                }
            }
        }
        let topic = topic.strip_prefix('/').unwrap_or(topic);
        let topic = TopicName::parse(topic)
            .map_err(|error| format!("the topic cannot be {topic:?}: {}", error.message()))?;
        let uri = master.or_else(|| variable("ROS_MASTER_URI")).ok_or(
            "which master? Set ROS_MASTER_URI, or add for example ?master=http://localhost:11311",
        )?;
        let place = uri
            .strip_prefix("http://")
            .map(|at| at.trim_end_matches('/'));
        let place = place.filter(|place| !place.is_empty() && !place.contains(['/', '?', '@']));
        let place = place.ok_or_else(|| {
            format!("the master cannot be at {uri:?}; give for example http://localhost:11311")
        })?;
        let mut master = TransportConfig::parse(&format!("rosmaster://{place}"))
            .map_err(|error| error.message().to_owned())?;
        for (name, option) in [("ROS_HOSTNAME", "hostname"), ("ROS_IP", "ip")] {
            if let Some(value) = variable(name).filter(|value| !value.is_empty()) {
                master = master.with_option(option, &value);
                // As rospy and roscpp: the name goes first.
                break;
            }
        }
        Ok(Self { topic, master })
    }

    /// Whether this program can speak to masters.
    pub(crate) fn check(&self, registry: &Registry) -> Result<(), Failure> {
        registry.factory(&self.master)?;
        Ok(())
    }

    /// Refuses to hear what the vehicle itself publishes over `transport`.
    pub(crate) fn check_apart(
        &self,
        transport: &TransportConfig,
        topics: &Topics,
    ) -> Result<(), Failure> {
        let own = [&topics.scan, &topics.cloud, &topics.objects];
        let (here, there) = (transport.url(), self.master.url());
        let same = here.scheme() == there.scheme()
            && here.host_str() == there.host_str()
            && here.port() == there.port();
        if same && own.contains(&&self.topic) {
            return Err(Failure::usage(format!(
                "source and vehicle would both be at /{} of one master, and the vehicle hear \
                 itself; give it topics of its own, such as --prefix vehicle1",
                self.topic
            )));
        }
        Ok(())
    }

    /// Subscribes and waits for the first message, which tells what the topic holds; `None` if told
    /// to stop before.
    #[allow(clippy::too_many_arguments, reason = "what a side has at hand")]
    pub(crate) async fn listen(
        self,
        load: &LoadArgs,
        registry: &Registry,
        convention: Convention,
        patience: Patience,
        stop: &mut watch::Receiver<bool>,
        opened: &mut Opened,
        remark: Remark,
    ) -> Result<Option<Load>, Failure> {
        let transport = sides::open(registry, &self.master, "source", patience, stop);
        let Some(transport) = transport.await? else {
            return Ok(None);
        };
        opened.push(std::sync::Arc::clone(&transport));
        let filter = TopicFilter::from(&self.topic);
        let qos = Qos::default().with_depth(DEPTH);
        let subscriber = transport
            .subscriber(&filter, &Schema::opaque(), qos)
            .await?;
        let mut messages = Messages {
            subscriber,
            name: format!("/{} of {}", self.topic, self.master),
            silent: false,
            remark,
        };
        let first = tokio::select! {
            first = messages.next() => first,
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
        };
        let first = first.ok_or_else(|| Failure::text(format!("{} ended", messages.name)))?;
        let holds = Holds::of(&first).map_err(|other| {
            Failure::text(format!(
                "{}: {} carries {other}; a source is of {} or {}",
                load.what(),
                messages.name,
                VelodyneScan::TYPE.name,
                PointCloud2::TYPE.name
            ))
        })?;
        let sweep = holds
            .decode(&first)
            .map_err(|error| Failure::new(&messages.name, error))?;
        let data_type = load.data_type_of(&sweep)?;
        let (feed, inlet) = Feed::live(data_type, convention);
        let origin = Origin::new(&load.source, data_type);
        let (load, task_origin) = (load.clone(), origin.clone());
        tokio::spawn(async move {
            let why = messages.forward(holds, &load, &inlet, &task_origin).await;
            inlet.end(why);
        });
        let pose = None;
        Ok(Some(Load { feed, origin, pose }))
    }
}

/// What the messages of a topic are.
#[derive(Clone, Copy)]
enum Holds {
    Scans,
    Clouds,
}

impl Holds {
    /// By the schema of a message; the error is what it is instead.
    fn of(sample: &Sample) -> Result<Self, String> {
        let Some(schema) = &sample.meta.schema else {
            return Err("messages without a type".to_owned());
        };
        let is =
            |kind: MessageType| schema.name() == kind.name && schema.fingerprint_hex() == kind.md5;
        if is(VelodyneScan::TYPE) {
            Ok(Self::Scans)
        } else if is(PointCloud2::TYPE) {
            Ok(Self::Clouds)
        } else {
            Err(schema.to_string())
        }
    }

    fn decode(self, sample: &Sample) -> Result<Sweep, DecodeError> {
        let payload = sample.payload.clone();
        Ok(match self {
            Self::Scans => Sweep::Scan(Turn {
                scan: VelodyneScan::decode(payload)?,
                partial: false,
                lost: 0,
            }),
            Self::Clouds => Sweep::Cloud(PointCloud2::decode(payload)?),
        })
    }
}

/// The messages of a topic; that none comes is told.
struct Messages {
    subscriber: Box<dyn Subscriber>,
    name: String,
    silent: bool,
    remark: Remark,
}

impl Messages {
    /// The next message; `None` when the transport ended. Cancel-safe.
    async fn next(&mut self) -> Option<Sample> {
        loop {
            match tokio::time::timeout(SILENCE, self.subscriber.recv()).await {
                Ok(None) => return None,
                Ok(Some(Ok(sample))) => {
                    if std::mem::take(&mut self.silent) {
                        (self.remark)(format!("{} is heard again", self.name));
                    }
                    return Some(sample);
                }
                Ok(Some(Err(error))) => (self.remark)(error.to_string()),
                Err(_) if self.silent => {}
                Err(_) => {
                    self.silent = true;
                    (self.remark)(format!(
                        "no message came on {} for {SILENCE:?}; check that something publishes \
                         there, and the address it advertises",
                        self.name
                    ));
                }
            }
        }
    }

    /// Hands on what comes until nobody takes it any more, and says why it ended.
    async fn forward(
        mut self,
        holds: Holds,
        load: &LoadArgs,
        inlet: &Inlet,
        origin: &Origin,
    ) -> String {
        let mut dropped = 0;
        while let Some(sample) = self.next().await {
            let counters = self.subscriber.counters();
            let lost = counters.dropped + counters.missed;
            inlet.skip(lost - dropped);
            dropped = lost;
            let sweep = match Holds::of(&sample) {
                Ok(_) => holds.decode(&sample).ok(),
                Err(_) => None,
            };
            let turns = {
                let mut statistics = origin.statistics();
                match &sweep {
                    None => statistics.damaged += 1,
                    Some(sweep) => {
                        statistics.turns += 1;
                        if let Sweep::Scan(turn) = sweep {
                            statistics.packets += turn.scan.packets.len() as u64;
                        }
                    }
                }
                statistics.turns
            };
            let Some(sweep) = sweep else { continue };
            match load.part(sweep, turns) {
                Ok(sweep) => {
                    if !inlet.offer(sweep) {
                        break;
                    }
                }
                Err(failure) => return failure.to_string(),
            }
        }
        format!("{} ended", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, environment: &[(&str, &str)]) -> Result<RosTopic, String> {
        RosTopic::with_environment(text, |name| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_master_is_that_of_the_option_or_of_the_environment() {
        let from = |text, environment: &[_]| parse(text, environment).unwrap().master.expose();
        let environment = [("ROS_MASTER_URI", "http://car:11311/")];
        assert_eq!(from("/points", &environment), "rosmaster://car:11311");
        let option = "points?master=http://127.0.0.1:4711";
        assert_eq!(from(option, &environment), "rosmaster://127.0.0.1:4711");
        let environment = [environment[0], ("ROS_IP", "10.0.0.1")];
        let url = from("/a/b", &environment);
        assert_eq!(url, "rosmaster://car:11311?ip=10.0.0.1");
        let environment = [environment[0], environment[1], ("ROS_HOSTNAME", "car")];
        assert!(from("/a/b", &environment).ends_with("?hostname=car"));
    }

    #[test]
    fn what_names_no_topic_of_a_master_is_refused() {
        for (text, part) in [
            ("/points", "ROS_MASTER_URI"),
            ("?master=http://a:1", "topic"),
            ("/points?mister=http://a:1", "master=URI"),
            ("/points?master=a:1", "http://localhost:11311"),
            ("/points?master=http://", "http://localhost:11311"),
            ("/points?master=http://a:1/path", "http://localhost:11311"),
        ] {
            let error = parse(text, &[]).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_vehicle_does_not_hear_itself() {
        let topic = parse("/points?master=http://car:11311", &[]).unwrap();
        let at = |url, prefix| {
            let config = TransportConfig::parse(url).unwrap();
            topic.check_apart(&config, &Topics::below(prefix).unwrap())
        };
        assert!(at("rosmaster://car:11311", "").is_err());
        assert!(at("rosmaster://car:11311", "vehicle1").is_ok());
        assert!(at("rosmaster://edge:11311", "").is_ok());
        assert!(at("mqtt://car:11311", "").is_ok());
    }
}
