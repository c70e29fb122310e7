use std::{
    io::{self, Read},
    ops::Range,
};

use lidar_messages::Time;
use pcap_parser::{
    LegacyPcapBlock, PcapError,
    nom::{Err as ParseError, IResult, Needed},
    parse_block_be, parse_block_le, parse_pcap_frame, parse_pcap_frame_be,
    parse_pcap_frame_modified, parse_pcap_header,
    pcapng::{Block, parse_sectionheaderblock},
};
use thiserror::Error;

use crate::frame::{Content, Link};

/// Bytes before which no format is known, and the shortest header of one.
const HEADER_LEN: usize = 24;

/// Kind of a pcapng block, its length, and its length again, in bytes.
const BLOCK_FRAME: u32 = 12;

/// How a pcapng section starts, in either byte order.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Longest frame or block taken for real, in bytes: four times what `tcpdump` captures by default.
const MAX_BLOCK: usize = 1 << 20;

/// Bytes read at a time.
const CHUNK: usize = 1 << 16;

/// Most interfaces of a section: more are no capture of a network.
const MAX_INTERFACES: usize = 1_024;

/// Why a file is not a capture that can be read, or not to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// Shorter than the header of a capture.
    #[error("not a pcap file: {len} B is too short for its header of {HEADER_LEN} B")]
    TooShort {
        /// Bytes of the file.
        len: usize,
    },
    /// Something else.
    #[error("not a pcap or pcapng file: it starts with {start:02x?}")]
    Foreign {
        /// The first bytes.
        start: [u8; 4],
    },
    /// Frames of a network that is not read here.
    #[error(
        "link type {link} is not supported; Ethernet (1), raw IP (101, 228, 229) and Linux cooked \
         (113, 276) are"
    )]
    Link {
        /// Number of the link type.
        link: u32,
    },
    /// The file ends inside a frame, or a frame cannot be.
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

type FrameParser =
    for<'a> fn(&'a [u8]) -> IResult<&'a [u8], LegacyPcapBlock<'a>, PcapError<&'a [u8]>>;

#[derive(Debug)]
enum Format {
    Pcap {
        parse: FrameParser,
        nanos_per_tick: u64,
        link: Link,
    },
    Pcapng {
        big_endian: bool,
        interfaces: Vec<Interface>,
    },
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    /// `None` if its frames cannot be read here.
    link: Option<Link>,
    ticks_per_second: u64,
    /// Seconds to add to its stamps.
    offset: i64,
}

/// Reads a capture in the format pcap or pcapng, frame by frame.
#[derive(Debug)]
pub struct Capture<R> {
    reader: R,
    format: Format,
    /// What was read and not yet used: from `start` on.
    buffer: Vec<u8>,
    start: usize,
    ended: bool,
    frames: u64,
    /// Of the last frame, for those that have none.
    stamp: Time,
}

/// A captured frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// When it was captured. Frames of a simple packet block have no stamp of their own; they get
    /// that of the frame before.
    pub stamp: Time,
    /// What it holds.
    pub content: Content<'a>,
}

/// A block of the file.
enum Parsed {
    Frame {
        stamp: Option<Time>,
        link: Option<Link>,
        /// Place of the frame in the block.
        frame: Range<usize>,
    },
    Section {
        big_endian: bool,
    },
    Interface(Interface),
    Nothing,
}

/// Why a block could not be parsed.
enum Fault {
    /// So many bytes are missing, at least.
    Short(usize),
    Damaged(&'static str),
}

impl<R: Read> Capture<R> {
    /// Reads the header of a capture.
    ///
    /// # Errors
    ///
    /// If it is none, of a link type that is not supported, or cannot be read.
    pub fn new(reader: R) -> Result<Self, CaptureError> {
        let mut capture = Self {
            reader,
            format: Format::Pcapng {
                big_endian: false,
                interfaces: Vec::new(),
            },
            buffer: Vec::new(),
            start: 0,
            ended: false,
            frames: 0,
            stamp: Time::default(),
        };
        while capture.buffer.len() < HEADER_LEN && !capture.ended {
            capture.fill()?;
        }
        let len = capture.buffer.len();
        let Some(start) = capture.buffer.first_chunk().copied() else {
            return Err(CaptureError::TooShort { len });
        };
        if start == SECTION && len >= HEADER_LEN {
            return Ok(capture);
        }
        let header = match parse_pcap_header(&capture.buffer) {
            Ok((_, header)) => header,
            Err(ParseError::Incomplete(_)) => return Err(CaptureError::TooShort { len }),
            Err(_) if len < HEADER_LEN => return Err(CaptureError::TooShort { len }),
            Err(_) => return Err(CaptureError::Foreign { start }),
        };
        // The upper bits hold the length of a frame check sequence.
        let link = header.network.0.cast_unsigned() & 0x0fff_ffff;
        let link = Link::new(link).ok_or(CaptureError::Link { link })?;
        capture.format = Format::Pcap {
            parse: if header.is_modified_format() {
                parse_pcap_frame_modified
            } else if header.is_bigendian() {
                parse_pcap_frame_be
            } else {
                parse_pcap_frame
            },
            nanos_per_tick: if header.is_nanosecond_precision() {
                1
            } else {
                1_000
            },
            link,
        };
        capture.start = HEADER_LEN;
        Ok(capture)
    }

    /// The next frame, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Truncated`] if the file ends inside a frame; frames before it were good.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        loop {
            let rest = &self.buffer[self.start..];
            if rest.is_empty() && self.ended {
                return Ok(None);
            }
            let (len, parsed) = match self.format.parse(rest) {
                Ok(parsed) => parsed,
                Err(Fault::Short(missing)) if rest.len().saturating_add(missing) > MAX_BLOCK => {
                    return self.truncated("a frame claims more than 1 MiB");
                }
                Err(Fault::Short(_)) if self.ended => {
                    return self.truncated("the file ends inside a frame");
                }
                Err(Fault::Short(_)) => {
                    self.fill()?;
                    continue;
                }
                Err(Fault::Damaged(reason)) => return self.truncated(reason),
            };
            let start = self.start;
            self.start += len;
            match (parsed, &mut self.format) {
                (Parsed::Frame { stamp, link, frame }, _) => {
                    self.frames += 1;
                    self.stamp = stamp.unwrap_or(self.stamp);
                    let frame = &self.buffer[start + frame.start..start + frame.end];
                    return Ok(Some(Frame {
                        stamp: self.stamp,
                        content: link.map_or(Content::Other, |link| link.content(frame)),
                    }));
                }
                (
                    Parsed::Section { big_endian: order },
                    Format::Pcapng {
                        big_endian,
                        interfaces,
                    },
                ) => {
                    *big_endian = order;
                    interfaces.clear();
                }
                (Parsed::Interface(interface), Format::Pcapng { interfaces, .. }) => {
                    if interfaces.len() == MAX_INTERFACES {
                        return self.truncated("a section has more than 1024 interfaces");
                    }
                    interfaces.push(interface);
                }
                _ => {}
            }
        }
    }

    fn truncated<T>(&self, reason: &'static str) -> Result<T, CaptureError> {
        let frames = self.frames;
        Err(CaptureError::Truncated { frames, reason })
    }

    /// Reads on, into the place of what was used.
    fn fill(&mut self) -> Result<(), CaptureError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let reader = self.reader.by_ref();
        let read = reader.take(CHUNK as u64).read_to_end(&mut self.buffer)?;
        self.ended = read < CHUNK;
        Ok(())
    }
}

impl Format {
    /// The block at the start of `bytes`, and its length.
    fn parse(&self, bytes: &[u8]) -> Result<(usize, Parsed), Fault> {
        let place = |frame: &[u8]| {
            let start = frame.as_ptr().addr() - bytes.as_ptr().addr();
            start..start + frame.len()
        };
        match self {
            Self::Pcap {
                parse,
                nanos_per_tick,
                link,
            } => {
                let (rest, block) = parse(bytes).map_err(fault)?;
                let seconds = u64::from(block.ts_sec) * 1_000_000_000;
                let nanos = seconds + u64::from(block.ts_usec) * nanos_per_tick;
                let frame = Parsed::Frame {
                    stamp: Some(Time::from_nanos(nanos)),
                    link: Some(*link),
                    frame: place(block.data),
                };
                Ok((bytes.len() - rest.len(), frame))
            }
            // Its byte order may be another one than that of the section before.
            Self::Pcapng { .. } if bytes.starts_with(&SECTION) => {
                let (rest, section) = parse_sectionheaderblock(bytes).map_err(fault)?;
                let section = Parsed::Section {
                    big_endian: section.big_endian(),
                };
                Ok((bytes.len() - rest.len(), section))
            }
            Self::Pcapng {
                big_endian,
                interfaces,
            } => {
                // The parser subtracts the size of its frame unseen for some kinds of block.
                if let Some(length) = bytes.get(4..8) {
                    let length = [length[0], length[1], length[2], length[3]];
                    let length = if *big_endian {
                        u32::from_be_bytes(length)
                    } else {
                        u32::from_le_bytes(length)
                    };
                    if length < BLOCK_FRAME {
                        return Err(Fault::Damaged("a block is shorter than its own frame"));
                    }
                }
                let parse = if *big_endian {
                    parse_block_be
                } else {
                    parse_block_le
                };
                let (rest, block) = parse(bytes).map_err(fault)?;
                let parsed = match block {
                    Block::InterfaceDescription(block) => Parsed::Interface(Interface {
                        link: Link::new(block.linktype.0.cast_unsigned()),
                        ticks_per_second: block
                            .ts_resolution()
                            .filter(|ticks| *ticks > 0)
                            .ok_or(Fault::Damaged("the clock of an interface cannot be"))?,
                        // The parser reads this as little-endian in every section.
                        offset: if *big_endian {
                            block.ts_offset().swap_bytes()
                        } else {
                            block.ts_offset()
                        },
                    }),
                    Block::EnhancedPacket(block) => {
                        let interface = interfaces.get(block.if_id as usize).ok_or(
                            Fault::Damaged("a frame is from an interface that is not told"),
                        )?;
                        let data = block.data.get(..block.caplen as usize);
                        Parsed::Frame {
                            stamp: Some(interface.time(block.ts_high, block.ts_low)),
                            link: interface.link,
                            frame: place(data.ok_or(Fault::Damaged("a frame exceeds its block"))?),
                        }
                    }
                    Block::SimplePacket(block) => {
                        let interface = interfaces.first().ok_or(Fault::Damaged(
                            "a frame is from an interface that is not told",
                        ))?;
                        // Its block is padded, and it may have been cut.
                        let len = block.data.len().min(block.origlen as usize);
                        Parsed::Frame {
                            stamp: None,
                            link: interface.link,
                            frame: place(&block.data[..len]),
                        }
                    }
                    _ => Parsed::Nothing,
                };
                Ok((bytes.len() - rest.len(), parsed))
            }
        }
    }
}

impl Interface {
    fn time(self, high: u32, low: u32) -> Time {
        let ticks = (u128::from(high) << 32) | u128::from(low);
        let nanos = ticks * 1_000_000_000 / u128::from(self.ticks_per_second);
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        let nanos = nanos.saturating_add(i128::from(self.offset) * 1_000_000_000);
        Time::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

fn fault(error: ParseError<PcapError<&[u8]>>) -> Fault {
    match error {
        ParseError::Incomplete(Needed::Size(missing)) => Fault::Short(missing.get()),
        ParseError::Incomplete(Needed::Unknown) => Fault::Short(1),
        _ => Fault::Damaged("a block is damaged"),
    }
}
