//! The md5 sums follow from the definitions by the rules of ROS 1 (genmsg).
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use lidar_messages::{
    Detection3DArray, Header, MarkerArray, MessageType, ObjectList, PointCloud2, PoseStamped,
    VelodynePacket, VelodyneScan,
};
use md5::{Digest, Md5};

const BUILTIN: [&str; 16] = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
    "float64", "string", "time", "duration", "byte", "char",
];

/// Constants first, then fields; a field of a message type is named by the sum of that type.
fn sum(name: &str, texts: &HashMap<&str, &str>) -> String {
    let package = name.split('/').next().unwrap();
    let (mut constants, mut fields) = (Vec::new(), Vec::new());
    for line in texts[name].lines().filter(|line| !line.is_empty()) {
        let (kind, rest) = line.split_once(' ').unwrap();
        let element = kind.split('[').next().unwrap();
        if rest.contains('=') {
            constants.push(line.to_owned());
        } else if BUILTIN.contains(&element) {
            fields.push(line.to_owned());
        } else {
            let full = match element {
                "Header" => "std_msgs/Header".to_owned(),
                _ if element.contains('/') => element.to_owned(),
                _ => format!("{package}/{element}"),
            };
            fields.push(format!("{} {rest}", sum(&full, texts)));
        }
    }
    constants.append(&mut fields);
    let digest = Md5::digest(constants.join("\n"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(message: MessageType) {
    let separator = format!("\n{}\nMSG: ", "=".repeat(80));
    let mut parts = message.definition.split(separator.as_str());
    let mut texts = HashMap::from([(message.name, parts.next().unwrap())]);
    for part in parts {
        let (name, text) = part.split_once('\n').unwrap();
        assert!(
            texts.insert(name, text).is_none(),
            "{name} is defined twice"
        );
    }
    assert_eq!(sum(message.name, &texts), message.md5, "{}", message.name);
}

#[test]
fn md5_sums_follow_from_the_definitions() {
    for message in [
        Header::TYPE,
        VelodynePacket::TYPE,
        VelodyneScan::TYPE,
        PointCloud2::TYPE,
        Detection3DArray::TYPE,
        ObjectList::TYPE,
        MarkerArray::TYPE,
        PoseStamped::TYPE,
    ] {
        check(message);
    }
}
