//! The header that opens a TCPROS connection: `key=value` fields, each with its length.

use std::collections::BTreeMap;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use transport_api::{Schema, SchemaId};

/// Largest header accepted, in bytes. The largest field is a message definition; those of the
/// common messages have a few kilobytes.
const MAX_HEADER: usize = 1 << 20;

/// Accepts every type.
pub(crate) const ANY: &str = "*";

/// The type of bytes without a declared meaning; its sum is that of an empty definition.
const OPAQUE_TYPE: &str = "transport_api/Opaque";
const OPAQUE_SUM: &str = "d41d8cd98f00b204e9800998ecf8427e";
const OPAQUE_DEFINITION: &str = "# bytes without a declared meaning\n";

/// The fields of a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header(BTreeMap<String, String>);

impl Header {
    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.0.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The header as it goes over the wire, its own length first.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        for (key, value) in &self.0 {
            // Own headers are far below 4 GiB.
            bytes.extend(((key.len() + 1 + value.len()) as u32).to_le_bytes());
            bytes.extend(key.as_bytes());
            bytes.push(b'=');
            bytes.extend(value.as_bytes());
        }
        let length = (bytes.len() - 4) as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// Reads a header. Allocates as bytes arrive, not as its length says.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let length = stream.read_u32_le().await? as usize;
        if length > MAX_HEADER {
            return Err(fault(format!(
                "header of {length} B, at most {MAX_HEADER} B are accepted; is this TCPROS?"
            )));
        }
        let mut bytes = Vec::new();
        let read = stream.take(length as u64).read_to_end(&mut bytes).await?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::decode(&bytes)
    }

    fn decode(mut bytes: &[u8]) -> io::Result<Self> {
        let mut fields = BTreeMap::new();
        while !bytes.is_empty() {
            let cut = || fault("a header field is cut".to_owned());
            let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (field, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
            bytes = rest;
            // Definitions come from files of any encoding.
            let field = String::from_utf8_lossy(field);
            let (key, value) = field
                .split_once('=')
                .ok_or_else(|| fault("a header field has no `=`".to_owned()))?;
            fields.insert(key.to_owned(), value.to_owned());
        }
        Ok(Self(fields))
    }
}

fn fault(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// A ROS type: what a topic is advertised as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) name: String,
    pub(crate) sum: String,
    pub(crate) definition: String,
}

impl Type {
    /// The type of a schema.
    pub(crate) fn of(schema: &Schema) -> Self {
        match schema.id() {
            Some(id) => Self {
                name: id.name().to_owned(),
                sum: id.fingerprint_hex(),
                definition: schema.definition().to_owned(),
            },
            None => Self {
                name: OPAQUE_TYPE.to_owned(),
                sum: OPAQUE_SUM.to_owned(),
                definition: OPAQUE_DEFINITION.to_owned(),
            },
        }
    }

    /// The schema that a publisher's header names; `None` for opaque bytes.
    pub(crate) fn schema(header: &Header) -> io::Result<Option<SchemaId>> {
        let missing = |key| fault(format!("the publisher's header has no `{key}`"));
        let name = header.get("type").ok_or_else(|| missing("type"))?;
        let sum = header.get("md5sum").ok_or_else(|| missing("md5sum"))?;
        if name == OPAQUE_TYPE || name == ANY || sum == ANY {
            return Ok(None);
        }
        let fingerprint =
            parse_sum(sum).ok_or_else(|| fault(format!("`{sum}` is not an md5 sum")))?;
        Ok(Some(SchemaId::new(name, fingerprint)))
    }

    /// Whether a subscriber with this header takes messages of this type.
    pub(crate) fn admits(&self, header: &Header) -> bool {
        let sum = header.get("md5sum").unwrap_or_default();
        let name = header.get("type").unwrap_or_default();
        sum == ANY || (sum == self.sum && (name == ANY || name == self.name))
    }

    /// Why a subscriber with this header is refused.
    pub(crate) fn refuse(&self, header: &Header) -> String {
        format!(
            "type mismatch: the publisher sends {} [{}], the subscriber expects {} [{}]",
            self.name,
            self.sum,
            header.get("type").unwrap_or_default(),
            header.get("md5sum").unwrap_or_default()
        )
    }

    /// Writes the type into a header.
    pub(crate) fn write(&self, header: Header) -> Header {
        header.with("type", &self.name).with("md5sum", &self.sum)
    }
}

fn parse_sum(text: &str) -> Option<[u8; 16]> {
    let mut sum = [0; 16];
    // The parser of numbers takes a sign, too.
    if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in sum.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(sum)
}

/// Whether messages of this definition begin with a `std_msgs/Header`.
pub(crate) fn starts_with_header(definition: &str) -> bool {
    let first = definition
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .find(|line| !line.is_empty() && !line.contains('='));
    let kind = first.and_then(|line| line.split_whitespace().next());
    matches!(kind, Some("Header" | "std_msgs/Header"))
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    async fn read(bytes: &[u8]) -> io::Result<Header> {
        let mut bytes = bytes;
        Header::read(&mut bytes).await
    }

    #[tokio::test]
    async fn headers_survive_the_wire_and_bad_ones_are_errors() {
        let header = Header::default()
            .with("topic", "/a")
            .with("message_definition", "int32 X=1\nHeader header\n");
        let bytes = header.encode();
        assert_eq!(read(&bytes).await.unwrap(), header);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).await.is_err());
        }
        assert!(read(b"GET / HTTP/1.1\r\n\r\n").await.is_err());
        assert!(
            read(&[8, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0])
                .await
                .is_err()
        );
        assert!(read(&[5, 0, 0, 0, 1, 0, 0, 0, b'x']).await.is_err());
    }

    /// Reading from memory never waits.
    fn now(bytes: &[u8]) -> io::Result<Header> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(read(bytes)).poll(&mut cx) {
            std::task::Poll::Ready(outcome) => outcome,
            std::task::Poll::Pending => panic!("memory is there"),
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_header_or_an_error(bytes in vec(any::<u8>(), 0..300)) {
            let _ = now(&bytes);
            let length = (bytes.len() as u32).to_le_bytes();
            if let Ok(header) = now(&[&length[..], &bytes].concat()) {
                prop_assert_eq!(now(&header.encode()).unwrap(), header);
            }
        }

        #[test]
        fn a_cut_or_oversized_header_is_an_error(
            fields in btree_map("[a-z]{1,8}", ".{0,40}", 1..6),
            cut in any::<Index>(),
            more in 1u32..,
        ) {
            let bytes = Header(fields).encode();
            prop_assert!(now(&bytes[..cut.index(bytes.len())]).is_err());
            // Its length promises more than comes, however much that is.
            let length = ((bytes.len() - 4) as u32).saturating_add(more).to_le_bytes();
            prop_assert!(now(&[&length[..], &bytes[4..]].concat()).is_err());
            // So does that of a field.
            let length = (bytes.len() as u32).saturating_add(more).to_le_bytes();
            prop_assert!(now(&[&bytes[..4], &length[..], &bytes[8..]].concat()).is_err());
        }
    }

    #[test]
    fn opaque_is_a_type_of_its_own_and_is_recognised() {
        let opaque = Type::of(&Schema::opaque());
        let header = Header::default()
            .with("type", &opaque.name)
            .with("md5sum", &opaque.sum);
        assert_eq!(Type::schema(&header).unwrap(), None);
        let schema = Schema::new("a/B", [0xab; 16], "int8 x");
        let header = Header::default()
            .with("type", "a/B")
            .with("md5sum", &"ab".repeat(16));
        assert_eq!(Type::schema(&header).unwrap().as_ref(), schema.id());
        for sum in [
            "",
            "xy",
            &"é".repeat(16),
            &"zz".repeat(16),
            &"+a".repeat(16),
        ] {
            let header = Header::default().with("type", "a/B").with("md5sum", sum);
            assert!(Type::schema(&header).is_err(), "{sum}");
        }
    }

    #[test]
    fn a_leading_header_is_found_behind_comments_and_constants() {
        assert!(starts_with_header(
            "# scan\n\nint32 X=1\nstd_msgs/Header header # stamp\nint8 x"
        ));
        assert!(starts_with_header("Header header"));
        assert!(!starts_with_header("int8 x\nHeader header"));
        assert!(!starts_with_header(""));
    }
}
