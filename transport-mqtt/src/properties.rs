//! Metadata as MQTT 5 properties, readable by any client.
//!
//! | property | content |
//! |---|---|
//! | content type | name of the schema |
//! | `rt-schema` | fingerprint of the schema, 32 hexadecimal digits |
//! | `rt-id`, `rt-correlation` | source in hexadecimal, `#`, position in decimal |
//! | `traceparent` | trace context as W3C writes it |
//! | `rt-stamps` | `point:clock:nanoseconds` in decimal, joined by spaces |
//!
//! Properties of others are ignored, so messages of foreign clients arrive with empty metadata.

use std::fmt::Write;

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

/// The properties that carry `meta`; `None` if there is nothing to carry.
pub(crate) fn encode(meta: &Metadata) -> Option<PublishProperties> {
    let mut user = Vec::with_capacity(5);
    let mut add = |key: &str, value: String| user.push((key.to_owned(), value));
    if let Some(id) = &meta.id {
        add(ID, id.to_string());
    }
    if let Some(id) = &meta.correlation {
        add(CORRELATION, id.to_string());
    }
    if let Some(trace) = &meta.trace {
        let TraceContext { trace, span, flags } = trace;
        add(TRACE, format!("00-{trace:032x}-{span:016x}-{flags:02x}"));
    }
    if let Some(schema) = &meta.schema {
        add(SCHEMA, schema.fingerprint_hex());
    }
    let stamps = meta.stamps.as_slice();
    if !stamps.is_empty() {
        let mut text = String::with_capacity(stamps.len() * 32);
        for stamp in stamps {
            let gap = if text.is_empty() { "" } else { " " };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "{gap}{}:{}:{}",
                stamp.point.0, stamp.clock.0, stamp.nanos
            );
        }
        add(STAMPS, text);
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

fn id(text: &str) -> Option<MessageId> {
    let (source, seq) = text.split_once('#')?;
    Some(MessageId {
        source: u64::from_str_radix(source, 16).ok()?,
        seq: seq.parse().ok()?,
    })
}

fn trace(text: &str) -> Option<TraceContext> {
    let mut parts = text.split('-').skip(1);
    let mut next = |digits: usize| parts.next().filter(|part| part.len() == digits);
    Some(TraceContext {
        trace: u128::from_str_radix(next(32)?, 16).ok()?,
        span: u64::from_str_radix(next(16)?, 16).ok()?,
        flags: u8::from_str_radix(next(2)?, 16).ok()?,
    })
}

fn fingerprint(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 {
        return None;
    }
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

fn stamps(text: &str, meta: &mut Metadata) -> Option<()> {
    for stamp in text.split(' ') {
        let mut parts = stamp.splitn(3, ':');
        let stamp = Stamp {
            point: StampPoint(parts.next()?.parse().ok()?),
            clock: ClockId(parts.next()?.parse().ok()?),
            nanos: parts.next()?.parse().ok()?,
        };
        if !meta.stamps.push(stamp) {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
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
            ("rt-id", "fffffffffffffff8#18446744073709551615")
        );
        assert_eq!(
            properties.content_type.as_deref(),
            Some("sensor_msgs/PointCloud2")
        );
        assert!(encode(&Metadata::default()).is_none());
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
        for (key, value) in [
            ("rt-id", "12"),
            ("rt-id", "xyz#1"),
            ("rt-correlation", "1#-1"),
            ("rt-schema", "1234"),
            ("rt-stamps", "1:2"),
            ("rt-stamps", "999:2:3"),
            (
                "rt-stamps",
                "1:1:1 1:1:1 1:1:1 1:1:1 1:1:1 1:1:1 1:1:1 1:1:1 1:1:1 1:1:1 1:1:1 1:1:1 1:1:1",
            ),
        ] {
            let error = read(&[(key, value)]).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}
