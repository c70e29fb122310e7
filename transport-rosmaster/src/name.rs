//! Names of the ROS graph.

use transport_api::{PeerId, TopicName};

/// The ROS name of a topic: absolute, so that no namespace applies.
pub(crate) fn topic(name: &TopicName) -> String {
    format!("/{name}")
}

/// The ROS name of the node of `peer`.
///
/// ROS names have no `-`. It is written as `_x2d`, and `_x` as `_x5fx`, so that every peer has one
/// node name and the other way round; the usual names stay as they are.
pub(crate) fn node(peer: &PeerId) -> String {
    let text = peer.as_str().replace("_x", "_x5fx").replace('-', "_x2d");
    format!("/{text}")
}

/// The peer whose node is called `node`; `None` for nodes in a namespace, which are not ours.
pub(crate) fn peer(node: &str) -> Option<PeerId> {
    let text = node.strip_prefix('/')?;
    PeerId::parse(&text.replace("_x2d", "-").replace("_x5fx", "_x")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_one_node_name_and_the_other_way_round() {
        for (text, expected) in [
            ("vehicle1", "/vehicle1"),
            ("vehicle_1", "/vehicle_1"),
            ("p12-ab", "/p12_x2dab"),
            ("a_x2d", "/a_x5fx2d"),
            ("a_x", "/a_x5fx"),
            ("a_x-", "/a_x5fx_x2d"),
            ("a_-x", "/a__x2dx"),
            ("a__x", "/a__x5fx"),
        ] {
            let id = PeerId::parse(text).unwrap();
            assert_eq!(node(&id), expected);
            assert_eq!(peer(expected), Some(id), "{expected}");
        }
        assert_eq!(peer("/a/b"), None);
        assert_eq!(peer("a"), None);
    }

    #[test]
    fn topics_are_absolute() {
        let name = TopicName::parse("vehicle1/points").unwrap();
        assert_eq!(topic(&name), "/vehicle1/points");
    }
}
