use std::io::{self, Read};

use lidar_messages::Time;
use thiserror::Error;

const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;

/// Longest frame taken for real, in bytes: what `tcpdump` captures by default.
const MAX_FRAME: u32 = 262_144;

/// Why a file is not a capture that can be read, or not to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// Shorter than the header of a capture.
    #[error("not a pcap file: {len} B is too short for its header of {FILE_HEADER_LEN} B")]
    TooShort {
        /// Bytes of the file.
        len: usize,
    },
    /// The other capture format.
    #[error("the file is pcapng; convert it with `editcap -F pcap IN OUT`")]
    Pcapng,
    /// Something else.
    #[error("not a pcap file: it starts with {start:02x?}")]
    Foreign {
        /// The first bytes.
        start: [u8; 4],
    },
    /// Frames of a network that is not read here.
    #[error(
        "link type {link} is not supported; Ethernet (1), raw IP (101) and Linux cooked (113) are"
    )]
    Link {
        /// Number of the link type.
        link: u32,
    },
    /// The file ends inside a frame, or a frame's length cannot be.
    #[error("truncated after {frames} frames: {reason}")]
    Truncated {
        /// Whole frames before.
        frames: u64,
        /// What was found there.
        reason: &'static str,
    },
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Debug, Clone, Copy)]
enum Link {
    Ethernet,
    RawIp,
    LinuxCooked,
}

/// Reads a capture in the classic pcap format, frame by frame.
#[derive(Debug)]
pub struct Capture<R> {
    reader: R,
    big_endian: bool,
    nanos_per_tick: u64,
    link: Link,
    frames: u64,
    frame: Vec<u8>,
}

/// A captured frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// When it was captured.
    pub stamp: Time,
    /// What it holds.
    pub content: Content<'a>,
}

/// What a captured frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// A whole UDP datagram over IPv4.
    Udp {
        /// Port it was sent to.
        port: u16,
        /// What was sent. Shorter than sent if the capture cut it.
        payload: &'a [u8],
    },
    /// Anything else.
    Other,
}

impl<R: Read> Capture<R> {
    /// Reads the header of a capture.
    ///
    /// # Errors
    ///
    /// If it is none, of a format or link type that is not supported, or cannot be read.
    pub fn new(mut reader: R) -> Result<Self, CaptureError> {
        let mut header = [0; FILE_HEADER_LEN];
        let len = read_full(&mut reader, &mut header)?;
        let start = [header[0], header[1], header[2], header[3]];
        let (big_endian, nanos_per_tick) = match start {
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000),
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1),
            [0x0a, 0x0d, 0x0d, 0x0a] => return Err(CaptureError::Pcapng),
            _ if len < FILE_HEADER_LEN => return Err(CaptureError::TooShort { len }),
            _ => return Err(CaptureError::Foreign { start }),
        };
        if len < FILE_HEADER_LEN {
            return Err(CaptureError::TooShort { len });
        }
        // The upper bits hold the length of a frame check sequence.
        let link = match word(&header, 20, big_endian) & 0x0fff_ffff {
            1 => Link::Ethernet,
            101 => Link::RawIp,
            113 => Link::LinuxCooked,
            link => return Err(CaptureError::Link { link }),
        };
        Ok(Self {
            reader,
            big_endian,
            nanos_per_tick,
            link,
            frames: 0,
            frame: Vec::new(),
        })
    }

    /// The next frame, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Truncated`] if the file ends inside a frame; frames before it were good.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        let truncated = |frames, reason| Err(CaptureError::Truncated { frames, reason });
        let mut header = [0; RECORD_HEADER_LEN];
        match read_full(&mut self.reader, &mut header)? {
            0 => return Ok(None),
            RECORD_HEADER_LEN => {}
            _ => return truncated(self.frames, "the file ends inside the header of a frame"),
        }
        let [secs, ticks, len] = [0, 4, 8].map(|at| word(&header, at, self.big_endian));
        if len > MAX_FRAME {
            return truncated(self.frames, "a frame claims more than 256 KiB");
        }
        self.frame.clear();
        let mut body = self.reader.by_ref().take(u64::from(len));
        if body.read_to_end(&mut self.frame)? < len as usize {
            return truncated(self.frames, "the file ends inside a frame");
        }
        self.frames += 1;
        let nanos = u64::from(secs) * 1_000_000_000 + u64::from(ticks) * self.nanos_per_tick;
        let content = ip_packet(self.link, &self.frame).and_then(udp);
        Ok(Some(Frame {
            stamp: Time::from_nanos(nanos),
            content: content.unwrap_or(Content::Other),
        }))
    }
}

/// Fills `buffer` as far as the input goes.
fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn word(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let value = bytes[at..].first_chunk().copied().unwrap_or_default();
    if big_endian {
        u32::from_be_bytes(value)
    } else {
        u32::from_le_bytes(value)
    }
}

fn ether_type(frame: &[u8], at: usize) -> Option<u16> {
    frame
        .get(at..)?
        .first_chunk()
        .map(|bytes| u16::from_be_bytes(*bytes))
}

/// The IPv4 packet in a frame.
fn ip_packet(link: Link, frame: &[u8]) -> Option<&[u8]> {
    const IPV4: u16 = 0x0800;
    const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
    let mut at = match link {
        Link::RawIp => return Some(frame),
        Link::Ethernet => 12,
        Link::LinuxCooked => 14,
    };
    while VLAN_TAGS.contains(&ether_type(frame, at)?) {
        at += 4;
    }
    (ether_type(frame, at)? == IPV4).then(|| &frame[at + 2..])
}

/// The datagram in an IPv4 packet that is no fragment.
fn udp(packet: &[u8]) -> Option<Content<'_>> {
    const UDP: u8 = 17;
    let header: &[u8; 20] = packet.first_chunk()?;
    let version = header[0] >> 4;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    if version != 4 || header_len < header.len() || fragment != 0 || header[9] != UDP {
        return None;
    }
    let datagram = packet.get(header_len..)?;
    let (udp_header, rest) = datagram.split_first_chunk::<8>()?;
    let port = u16::from_be_bytes([udp_header[2], udp_header[3]]);
    // Short frames are padded on Ethernet, so the end of the frame does not say how much was sent.
    let sent = usize::from(u16::from_be_bytes([udp_header[4], udp_header[5]])).checked_sub(8)?;
    Some(Content::Udp {
        port,
        payload: rest.get(..sent).unwrap_or(rest),
    })
}
