//! Metadata as MQTT 5 properties, readable by any client.
//!
//! | property | content |
//! |---|---|
//! | content type | name of the schema |
//! | `rt-schema` | fingerprint of the schema, 32 hexadecimal digits |
//! | `rt-id`, `rt-correlation` | source, `#`, position |
//! | `traceparent` | trace context as W3C writes it |
//! | `rt-stamps` | `point:clock:nanoseconds`, joined by spaces |
//!
//! Numbers are hexadecimal with all their digits (point 2, clock 8, the others 16; nanoseconds as
//! two's complement), so that the bytes on the wire do not depend on the values.
//!
//! Properties of others are ignored, so messages of foreign clients arrive with empty metadata.

use rumqttc::v5::mqttbytes::v5::PublishProperties;
use transport_api::{
    ClockId, Error, ErrorKind, MessageId, Metadata, Result, SchemaId, Stamp, StampPoint,
    TraceContext,
};

const SCHEMA: &str = "rt-schema";
const ID: &str = "rt-id";
const CORRELATION: &str = "rt-correlation";
const TRACE: &str = "traceparent";
const STAMPS: &str = "rt-stamps";

/// Length of one stamp.
const STAMP: usize = 2 + 1 + 8 + 1 + 16;

/// The properties that carry `meta`; `None` if there is nothing to carry.
pub(crate) fn encode(meta: &Metadata) -> Option<PublishProperties> {
    let stamps = meta.stamps.as_slice();
    let count = usize::from(meta.id.is_some())
        + usize::from(meta.correlation.is_some())
        + usize::from(meta.trace.is_some())
        + usize::from(meta.schema.is_some())
        + usize::from(!stamps.is_empty());
    let mut user = Vec::with_capacity(count);
    let mut add = |key: &str, value: Digits| user.push((key.to_owned(), value.0));
    let id = |id: &MessageId| {
        Digits::room_for(33)
            .number(id.source.into(), 16)
            .sign('#')
            .number(id.seq.into(), 16)
    };
    if let Some(own) = &meta.id {
        add(ID, id(own));
    }
    if let Some(other) = &meta.correlation {
        add(CORRELATION, id(other));
    }
    if let Some(TraceContext { trace, span, flags }) = meta.trace {
        let value = Digits::room_for(55)
            .number(0, 2)
            .sign('-')
            .number(trace, 32)
            .sign('-')
            .number(span.into(), 16)
            .sign('-')
            .number(flags.into(), 2);
        add(TRACE, value);
    }
    if let Some(schema) = &meta.schema {
        let fingerprint = u128::from_be_bytes(*schema.fingerprint());
        add(SCHEMA, Digits::room_for(32).number(fingerprint, 32));
    }
    if let Some((first, rest)) = stamps.split_first() {
        let room = Digits::room_for(stamps.len() * (STAMP + 1) - 1).stamp(first);
        let add_stamp = |digits: Digits, stamp| digits.sign(' ').stamp(stamp);
        add(STAMPS, rest.iter().fold(room, add_stamp));
    }
    (!user.is_empty()).then(|| PublishProperties {
        user_properties: user,
        content_type: meta.schema.as_ref().map(|schema| schema.name().to_owned()),
        ..PublishProperties::default()
    })
}

/// Bytes that `properties` add to a packet, at most.
pub(crate) fn size(properties: &PublishProperties) -> usize {
    let user = properties.user_properties.iter();
    let user: usize = user.map(|(key, value)| key.len() + value.len() + 5).sum();
    user + properties
        .content_type
        .as_ref()
        .map_or(0, |name| name.len() + 3)
}

/// Reads metadata; keeps the last schema so that a steady stream allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    schema: Option<SchemaId>,
}

impl Decoder {
    /// The metadata that `properties` carry.
    ///
    /// # Errors
    /// [`ErrorKind::Codec`] naming the property that cannot be read.
    pub(crate) fn decode(&mut self, properties: &PublishProperties) -> Result<Metadata> {
        let mut meta = Metadata::default();
        for (key, value) in &properties.user_properties {
            let read = match key.as_str() {
                ID => id(value).map(|id| meta.id = Some(id)),
                CORRELATION => id(value).map(|id| meta.correlation = Some(id)),
                // Foreign software writes trace contexts too, also of later versions.
                TRACE => {
                    meta.trace = trace(value);
                    Some(())
                }
                STAMPS => stamps(value, &mut meta),
                SCHEMA => fingerprint(value).map(|fingerprint| {
                    let name = properties.content_type.as_deref().unwrap_or_default();
                    meta.schema = Some(self.schema(name, fingerprint));
                }),
                _ => Some(()),
            };
            if read.is_none() {
                return Err(Error::new(
                    ErrorKind::Codec,
                    "decode metadata",
                    format!(
                        "user property `{key}` = `{}`",
                        value.chars().take(80).collect::<String>().escape_debug()
                    ),
                ));
            }
        }
        Ok(meta)
    }

    fn schema(&mut self, name: &str, fingerprint: [u8; 16]) -> SchemaId {
        match &self.schema {
            Some(known) if known.name() == name && *known.fingerprint() == fingerprint => {
                known.clone()
            }
            _ => {
                let schema = SchemaId::new(name, fingerprint);
                self.schema = Some(schema.clone());
                schema
            }
        }
    }
}

/// A value while it is written, without a second allocation.
struct Digits(String);

impl Digits {
    fn room_for(length: usize) -> Self {
        Self(String::with_capacity(length))
    }

    /// Adds a number with all its hexadecimal digits.
    fn number(mut self, value: u128, digits: u32) -> Self {
        let digit = |n| char::from_digit((value >> (4 * n)) as u32 & 15, 16);
        self.0.extend((0..digits).rev().filter_map(digit));
        self
    }

    fn sign(mut self, sign: char) -> Self {
        self.0.push(sign);
        self
    }

    fn stamp(self, stamp: &Stamp) -> Self {
        self.number(stamp.point.0.into(), 2)
            .sign(':')
            .number(stamp.clock.0.into(), 8)
            .sign(':')
            .number((stamp.nanos as u64).into(), 16)
    }
}

fn id(text: &str) -> Option<MessageId> {
    let (source, seq) = text.split_once('#')?;
    Some(MessageId {
        source: number(source, 16)? as u64,
        seq: number(seq, 16)? as u64,
    })
}

/// A number of exactly so many hexadecimal digits.
fn number(text: &str, digits: usize) -> Option<u128> {
    // The parser of the standard library takes a sign, too.
    let whole = text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    whole.then(|| u128::from_str_radix(text, 16).ok())?
}

fn trace(text: &str) -> Option<TraceContext> {
    let mut parts = text.split('-').skip(1);
    let mut next = |digits: usize| number(parts.next()?, digits);
    Some(TraceContext {
        trace: next(32)?,
        span: next(16)? as u64,
        flags: next(2)? as u8,
    })
}

fn fingerprint(text: &str) -> Option<[u8; 16]> {
    number(text, 32).map(u128::to_be_bytes)
}

fn stamps(text: &str, meta: &mut Metadata) -> Option<()> {
    for stamp in text.split(' ') {
        let mut parts = stamp.splitn(3, ':');
        let stamp = Stamp {
            point: StampPoint(number(parts.next()?, 2)? as u8),
            clock: ClockId(number(parts.next()?, 8)? as u32),
            nanos: number(parts.next()?, 16)? as u64 as i64,
        };
        if !meta.stamps.push(stamp) {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full() -> Metadata {
        let id = |seq| MessageId {
            source: u64::MAX - 7,
            seq,
        };
        let mut meta = Metadata {
            id: Some(id(u64::MAX)),
            correlation: Some(id(0)),
            trace: Some(TraceContext {
                trace: 5,
                span: 6,
                flags: 1,
            }),
            schema: Some(SchemaId::new("sensor_msgs/PointCloud2", [0xab; 16])),
            ..Metadata::default()
        };
        for n in 0..12 {
            meta.stamps.push(Stamp {
                point: StampPoint(n),
                clock: ClockId(u32::MAX),
                nanos: i64::MIN + i64::from(n),
            });
        }
        meta
    }

    #[test]
    fn metadata_survives_as_readable_text() {
        let meta = full();
        let properties = encode(&meta).unwrap();
        assert_eq!(Decoder::default().decode(&properties).unwrap(), meta);
        let id = &properties.user_properties[0];
        assert_eq!(
            (id.0.as_str(), id.1.as_str()),
            ("rt-id", "fffffffffffffff8#ffffffffffffffff")
        );
        assert_eq!(
            properties.content_type.as_deref(),
            Some("sensor_msgs/PointCloud2")
        );
        for (key, value) in &properties.user_properties {
            // Each was allocated once.
            assert_eq!(value.capacity(), value.len(), "{key}");
        }
        assert!(encode(&Metadata::default()).is_none());
    }

    #[test]
    fn the_length_does_not_depend_on_the_values() {
        let meta = |id: u64, nanos: i64, clock: u32| {
            let mut meta = Metadata {
                id: Some(MessageId {
                    source: id,
                    seq: id,
                }),
                ..Metadata::default()
            };
            meta.stamps.push(Stamp {
                point: StampPoint(clock as u8),
                clock: ClockId(clock),
                nanos,
            });
            meta
        };
        let length = |meta: &Metadata| size(&encode(meta).unwrap());
        let least = meta(0, 0, 0);
        for other in [
            meta(u64::MAX, i64::MAX, u32::MAX),
            meta(1, -1, 1),
            meta(10, i64::MIN, 256),
        ] {
            assert_eq!(length(&other), length(&least));
            let properties = encode(&other).unwrap();
            assert_eq!(Decoder::default().decode(&properties).unwrap(), other);
        }
    }

    fn read(key: &str, value: &str, name: Option<String>) -> Result<Metadata> {
        Decoder::default().decode(&PublishProperties {
            user_properties: vec![(key.to_owned(), value.to_owned())],
            content_type: name,
            ..PublishProperties::default()
        })
    }

    proptest! {
        #[test]
        fn any_properties_are_metadata_or_an_error_that_names_the_key(
            key in prop::sample::select(&[ID, CORRELATION, TRACE, STAMPS, SCHEMA][..]),
            value in prop_oneof![".{0,400}", "[0-9a-fA-F#: +-]{0,400}"],
            name in prop::option::of(".{0,300}"),
        ) {
            if let Err(error) = read(key, &value, name) {
                let text = error.to_string();
                prop_assert!(text.contains(key) && text.len() < 1000, "{}", text);
            }
        }

        #[test]
        fn cut_values_are_errors(cut in any::<prop::sample::Index>()) {
            for (key, value) in encode(&full()).unwrap().user_properties {
                let at = cut.index(value.len());
                let whole_stamps = key == STAMPS && at > 0 && (at + 1) % (STAMP + 1) == 0;
                // What is no trace context of ours is of somebody else.
                if key != TRACE && !whole_stamps {
                    prop_assert!(read(&key, &value[..at], None).is_err(), "{}", &value[..at]);
                }
            }
        }
    }

    #[test]
    fn foreign_properties_are_ignored_and_damaged_ones_are_named() {
        let read = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            Decoder::default().decode(&PublishProperties {
                user_properties: pairs.collect(),
                content_type: Some("text/plain".to_owned()),
                ..PublishProperties::default()
            })
        };
        assert_eq!(read(&[("anything", "")]).unwrap(), Metadata::default());
        assert_eq!(
            read(&[("traceparent", "cc-1-2")]).unwrap(),
            Metadata::default()
        );
        let thirteen = ["01:00000002:0000000000000003"; 13].join(" ");
        for (key, value) in [
            ("rt-id", "12"),
            ("rt-id", "xyz#1"),
            ("rt-id", "1#2"),
            ("rt-id", "+000000000000001#0000000000000002"),
            ("rt-correlation", "0000000000000001#-000000000000001"),
            ("rt-schema", "1234"),
            ("rt-schema", "+1234567890123456789012345678901"),
            ("rt-stamps", ""),
            ("rt-stamps", "01:00000002"),
            ("rt-stamps", "1:2:3"),
            ("rt-stamps", "01:00000002:0000000000000003 "),
            ("rt-stamps", "001:00000002:0000000000000003"),
            ("rt-stamps", thirteen.as_str()),
        ] {
            let error = read(&[(key, value)]).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}
