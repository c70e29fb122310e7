//! The paths, what each is compared with, and the goals.

use crate::bare::native::{LIBMOSQUITTO, Native, ROSCPP};
use crate::payload::{CLOUD, SCAN};

/// A way from one end to the other and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Name, also in the ids of criterion.
    pub name: &'static str,
    /// What the two ends use.
    pub over: Over,
    /// What runs between them.
    pub server: Server,
    /// The floor it is compared with and takes turns with.
    pub floor: &'static str,
    /// Most times the floor that is good enough.
    pub floor_goal: Option<Goal>,
    /// The same library without the contract, for paths over it.
    pub bare: Option<Bare>,
    /// The protocol's library in C or C++, for paths over the same server.
    pub native: Option<(&'static str, Goal)>,
}

/// What an end uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Plain sockets.
    Tcp,
    /// The contract, with a transport chosen by URL.
    Contract,
    /// `rumqttc`.
    Mqtt(Use),
    /// `zenoh`.
    Zenoh(Use),
    /// `rosrust`.
    Ros(Use),
    /// A library in C or C++.
    Native(Native),
}

/// How a library is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The shortest way the library allows: answers are given where its callback or event loop runs.
    /// An app that does any work there holds up the connection.
    Bare,
    /// Every message is handed over to a thread of the app, as one whole piece of memory.
    HandedOver,
}

/// What runs between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// Nothing: the answering end listens.
    Nothing,
    /// A hand-written relay.
    Relay,
    /// mosquitto.
    Mosquitto,
    /// The Zenoh router.
    Zenohd,
    /// Whatever the transport of this URL brings for a meeting.
    Meeting(&'static str),
}

/// The paths that use the same library without the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bare {
    /// Used in the shortest way.
    pub shortest: &'static str,
    /// Used with a hand-over to a thread of the app.
    pub handed_over: &'static str,
}

/// Most times the reference that is good enough, for a scan and for a cloud.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    scan: f64,
    cloud: f64,
}

impl Goal {
    /// The goal for a payload of `size` bytes.
    pub fn at(&self, size: usize) -> Option<f64> {
        match size {
            SCAN => Some(self.scan),
            CLOUD => Some(self.cloud),
            _ => None,
        }
    }
}

/// The contract over the same library, equally tuned.
pub const BARE_GOAL: Goal = goal(1.10, 1.05);

const fn goal(scan: f64, cloud: f64) -> Goal {
    Goal { scan, cloud }
}

const fn path(name: &'static str, floor: &'static str, over: Over, server: Server) -> Path {
    Path {
        name,
        over,
        server,
        floor,
        floor_goal: None,
        bare: None,
        native: None,
    }
}

impl Path {
    const fn goal(mut self, goal: Goal) -> Self {
        self.floor_goal = Some(goal);
        self
    }

    const fn against(mut self, shortest: &'static str, handed_over: &'static str) -> Self {
        self.bare = Some(Bare {
            shortest,
            handed_over,
        });
        self
    }

    const fn against_native(mut self, name: &'static str, goal: Goal) -> Self {
        self.native = Some((name, goal));
        self
    }
}

/// The embedded broker.
const MQTT_EMBEDDED: Server = Server::Meeting("mqtt:embedded");
/// Two peers, one of which listens.
const ZENOH_PEERS: Server = Server::Meeting("zenoh:peer");
/// The same two without the network: payloads go through shared memory.
const ZENOH_SHARED: Server = Server::Meeting("zenoh:peer?shared_memory=true");
/// The embedded master.
const ROS_MASTER: Server = Server::Meeting("rosmaster:embedded");

/// The floor of direct transports.
pub const DIRECT: &str = "tcp";
/// The floor of transports with something in between.
pub const RELAYED: &str = "relay";

/// Every path, those of one floor together.
pub const PATHS: &[Path] = &[
    path("tcp", DIRECT, Over::Tcp, Server::Nothing),
    // The same again: how far two equal paths differ is how far a ratio can be trusted.
    path("tcp-again", DIRECT, Over::Tcp, Server::Nothing),
    path(
        "template",
        DIRECT,
        Over::Contract,
        Server::Meeting("tcp:embedded"),
    )
    .goal(goal(1.25, 1.25)),
    path(
        "zenoh-bare",
        DIRECT,
        Over::Zenoh(Use::Bare),
        Server::Nothing,
    ),
    path(
        "zenoh-handed-over",
        DIRECT,
        Over::Zenoh(Use::HandedOver),
        Server::Nothing,
    ),
    path("zenoh", DIRECT, Over::Contract, ZENOH_PEERS)
        .goal(goal(3.3, 2.0))
        .against("zenoh-bare", "zenoh-handed-over"),
    path("zenoh-shared-memory", DIRECT, Over::Contract, ZENOH_SHARED).goal(goal(3.0, 1.2)),
    path("rosmaster-bare", DIRECT, Over::Ros(Use::Bare), ROS_MASTER),
    path(
        "rosmaster-handed-over",
        DIRECT,
        Over::Ros(Use::HandedOver),
        ROS_MASTER,
    ),
    path("rosmaster-cpp", DIRECT, Over::Native(ROSCPP), ROS_MASTER),
    path("rosmaster", DIRECT, Over::Contract, ROS_MASTER)
        .against("rosmaster-bare", "rosmaster-handed-over")
        .against_native("rosmaster-cpp", goal(1.3, 1.1)),
    path("relay", RELAYED, Over::Tcp, Server::Relay),
    path(
        "mqtt-bare",
        RELAYED,
        Over::Mqtt(Use::Bare),
        Server::Mosquitto,
    ),
    path(
        "mqtt-handed-over",
        RELAYED,
        Over::Mqtt(Use::HandedOver),
        Server::Mosquitto,
    ),
    path(
        "mqtt-c",
        RELAYED,
        Over::Native(LIBMOSQUITTO),
        Server::Mosquitto,
    ),
    path("mqtt", RELAYED, Over::Contract, Server::Mosquitto)
        .goal(goal(1.3, 1.2))
        .against("mqtt-bare", "mqtt-handed-over")
        .against_native("mqtt-c", goal(1.0, 1.0)),
    path(
        "mqtt-embedded-bare",
        RELAYED,
        Over::Mqtt(Use::Bare),
        MQTT_EMBEDDED,
    ),
    path(
        "mqtt-embedded-handed-over",
        RELAYED,
        Over::Mqtt(Use::HandedOver),
        MQTT_EMBEDDED,
    ),
    path("mqtt-embedded", RELAYED, Over::Contract, MQTT_EMBEDDED)
        .goal(goal(1.8, 1.3))
        .against("mqtt-embedded-bare", "mqtt-embedded-handed-over"),
    path(
        "zenohd-bare",
        RELAYED,
        Over::Zenoh(Use::Bare),
        Server::Zenohd,
    ),
    path(
        "zenohd-handed-over",
        RELAYED,
        Over::Zenoh(Use::HandedOver),
        Server::Zenohd,
    ),
    path("zenohd", RELAYED, Over::Contract, Server::Zenohd)
        .against("zenohd-bare", "zenohd-handed-over"),
];

/// The path of a name.
pub fn named(name: &str) -> Option<&'static Path> {
    PATHS.iter().find(|path| path.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_paths_are_compared_with_takes_turns_with_them() {
        for path in PATHS {
            assert_eq!(PATHS.iter().filter(|p| p.name == path.name).count(), 1);
            let bare = path.bare.map(|bare| [bare.shortest, bare.handed_over]);
            let native = path.native.map(|(name, _)| name);
            let references = bare.into_iter().flatten().chain(native);
            for reference in references.chain([path.floor]) {
                assert_eq!(named(reference).unwrap().floor, path.floor, "{}", path.name);
            }
            if let Some(native) = native {
                assert_eq!(named(native).unwrap().server, path.server);
            }
        }
        let floors: Vec<_> = PATHS.iter().map(|path| path.floor).collect();
        assert!(floors.is_sorted_by_key(|floor| *floor == RELAYED));
    }
}
