//! Recorded messages: bags of ROS 1, and MCAP files of ROS 1 and ROS 2.

mod mcap;
mod ros1;

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use bytes::Bytes;
use bzip2::read::BzDecoder;
use lidar_messages::Time;
use lz4_flex::frame::FrameDecoder;
use ruzstd::decoding::StreamingDecoder;
use thiserror::Error;

/// How bags of ROS 1 start.
const ROS1_MAGIC: &[u8] = b"#ROSBAG V2.0\n";

/// How MCAP files start, and end.
const MCAP_MAGIC: &[u8] = b"\x89MCAP0\r\n";

/// Longest chunk or record taken for real in a file, in bytes, also when unpacked.
const MAX_DATA: u32 = 1 << 28;

/// Most messages of a bag: days of every topic of a vehicle. Each one takes 24 bytes of memory.
const MAX_MESSAGES: usize = 50_000_000;

/// Chunks that are held unpacked. Messages of neighbouring chunks may interleave.
const HELD_CHUNKS: usize = 4;

/// Why a file is not a bag that can be read, or not to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BagError {
    /// Without a byte.
    #[error("the file is empty")]
    Empty,
    /// Something else.
    #[error("neither a bag of format 2.0 nor an MCAP file: it starts with {start:?}")]
    Foreign {
        /// The first bytes.
        start: String,
    },
    /// Packed in a way that is not read here.
    #[error(
        "compression {name:?} of a chunk is not supported; none, lz4, and bz2 (bags) or zstd (MCAP) are"
    )]
    Compression {
        /// Its name.
        name: String,
    },
    /// The bag is encrypted.
    #[error("the bag is encrypted by {name:?}; decrypt it first")]
    Encrypted {
        /// What encrypted it.
        name: String,
    },
    /// More messages than are held in mind.
    #[error("the bag has more than {MAX_MESSAGES} messages; split it")]
    TooLong,
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What was published where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The topic.
    pub topic: String,
    /// `package/Type`, for ROS 2 as well.
    pub kind: String,
    /// Fingerprint of the definition, in bags of ROS 1.
    pub md5: Option<String>,
    /// How its messages are encoded.
    pub encoding: Encoding,
}

/// How messages are encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encoding {
    /// As ROS 1 does.
    Ros1,
    /// As ROS 2 does.
    Cdr,
    /// In a way that is not read here.
    Other(String),
}

/// A recorded message.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// When it was received.
    pub time: Time,
    /// The message. It shares the memory of its chunk.
    pub data: Bytes,
}

/// A bag of ROS 1 or an MCAP file, by what it starts with, read in the order of time.
///
/// Opening it goes through the whole file once, also without an index, as a recorder that was
/// stopped hard leaves it. Memory: a few unpacked chunks, and 24 bytes for each message.
#[derive(Debug)]
pub struct Bag<R = File> {
    file: BufReader<R>,
    /// Bytes of it.
    len: u64,
    max_chunk: u32,
    chunks: Vec<Chunk>,
    connections: HashMap<u32, Connection>,
    /// By time.
    messages: Vec<Entry>,
    next: usize,
    /// The chunks that were unpacked last, the newest at the end.
    held: VecDeque<(u32, Bytes)>,
    damage: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    /// Where its data begins in the file.
    at: u64,
    /// Bytes there.
    len: u32,
    packing: Packing,
    /// Bytes when unpacked.
    size: u32,
}

#[derive(Debug, Clone, Copy)]
enum Packing {
    None,
    Lz4,
    Bz2,
    Zstd,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    time: u64,
    connection: u32,
    chunk: u32,
    /// Place of the message in its chunk.
    at: u32,
    len: u32,
}

/// What ends reading a part of a bag.
enum Fault {
    /// What comes cannot be, or the file ends: what came before is good.
    Damaged(&'static str),
    Refused(BagError),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Damaged("the file ends inside a record"),
            _ => Self::Refused(error.into()),
        }
    }
}

impl Bag {
    /// Opens a bag and looks through it.
    ///
    /// # Errors
    ///
    /// If it is none, of a compression that is not supported, encrypted, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, BagError> {
        Self::new(File::open(path)?, MAX_DATA)
    }
}

impl<R: Read + Seek> Bag<R> {
    /// Looks through a bag. A chunk that becomes more than `max_chunk` bytes is taken for damage.
    ///
    /// # Errors
    ///
    /// As [`open`](Bag::open).
    pub fn new(mut file: R, max_chunk: u32) -> Result<Self, BagError> {
        let len = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mut file = BufReader::new(file);
        let mut start = Vec::new();
        let longest = ROS1_MAGIC.len() as u64;
        file.by_ref().take(longest).read_to_end(&mut start)?;
        if start.is_empty() {
            return Err(BagError::Empty);
        }
        let is_mcap = start.starts_with(MCAP_MAGIC);
        if start != ROS1_MAGIC && !is_mcap {
            let start = String::from_utf8_lossy(&start).into_owned();
            return Err(BagError::Foreign { start });
        }
        let mut bag = Self {
            file,
            len,
            max_chunk,
            chunks: Vec::new(),
            connections: HashMap::new(),
            messages: Vec::new(),
            next: 0,
            held: VecDeque::new(),
            damage: None,
        };
        let looked = if is_mcap {
            bag.look_through_mcap()
        } else {
            bag.look_through_ros1()
        };
        match looked {
            Ok(()) => {}
            Err(Fault::Damaged(reason)) => bag.damage = Some(reason),
            Err(Fault::Refused(error)) => return Err(error),
        }
        // Messages of one time keep their order.
        bag.messages.sort_by_key(|entry| entry.time);
        Ok(bag)
    }

    /// What was recorded, by topic.
    pub fn connections(&self) -> Vec<&Connection> {
        let mut connections: Vec<_> = self.connections.values().collect();
        connections.sort_by(|a, b| (&a.topic, &a.kind).cmp(&(&b.topic, &b.kind)));
        connections.dedup();
        connections
    }

    /// Leaves only the messages that `wanted` says of; what was read already comes again.
    pub fn select(&mut self, wanted: impl Fn(&Connection) -> bool) {
        let connections = &self.connections;
        let is_wanted = |entry: &Entry| connections.get(&entry.connection).is_some_and(&wanted);
        self.messages.retain(is_wanted);
        self.next = 0;
    }

    /// Messages, of all connections or those selected.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Why the bag was not read to its end, if it was not.
    pub fn damage(&self) -> Option<&'static str> {
        self.damage
    }

    /// The next message, or `None` after the last.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has changed.
    pub fn next_message(&mut self) -> Result<Option<Recorded>, BagError> {
        let Some(&entry) = self.messages.get(self.next) else {
            return Ok(None);
        };
        let chunk = match self.held.iter().find(|(number, _)| *number == entry.chunk) {
            Some((_, chunk)) => chunk.clone(),
            None => {
                let chunk = self.unpack(self.chunks[entry.chunk as usize]);
                let chunk = chunk.map_err(|fault| match fault {
                    Fault::Damaged(reason) => {
                        io::Error::new(io::ErrorKind::InvalidData, reason).into()
                    }
                    Fault::Refused(error) => error,
                })?;
                self.hold(entry.chunk, chunk.clone());
                chunk
            }
        };
        let (at, end) = (entry.at as usize, entry.at as usize + entry.len as usize);
        if end > chunk.len() {
            let reason = "the bag has changed since it was opened";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason).into());
        }
        self.next += 1;
        Ok(Some(Recorded {
            time: Time::from_nanos(entry.time),
            data: chunk.slice(at..end),
        }))
    }

    /// Unpacks a chunk for the first time, and gives it a number.
    fn add_chunk(&mut self, chunk: Chunk) -> Result<(u32, Bytes), Fault> {
        let unpacked = self.unpack(chunk)?;
        // A chunk takes a header of the file, of which there are fewer.
        let number = u32::try_from(self.chunks.len()).unwrap_or(u32::MAX);
        self.chunks.push(chunk);
        self.hold(number, unpacked.clone());
        Ok((number, unpacked))
    }

    fn add_message(
        &mut self,
        time: u64,
        connection: u32,
        chunk: u32,
        at: usize,
        len: usize,
    ) -> Result<(), Fault> {
        if self.messages.len() == MAX_MESSAGES {
            return Err(Fault::Refused(BagError::TooLong));
        }
        self.messages.push(Entry {
            time,
            connection,
            chunk,
            // A chunk has less than 2^32 bytes.
            at: at as u32,
            len: len as u32,
        });
        Ok(())
    }

    fn hold(&mut self, number: u32, unpacked: Bytes) {
        if self.held.len() == HELD_CHUNKS {
            self.held.pop_front();
        }
        self.held.push_back((number, unpacked));
    }

    fn unpack(&mut self, chunk: Chunk) -> Result<Bytes, Fault> {
        if chunk.size > self.max_chunk {
            return Err(Fault::Damaged(
                "a chunk claims more bytes than are taken for real",
            ));
        }
        let end = chunk.at + u64::from(chunk.len);
        if end > self.len {
            return Err(Fault::Damaged("the file ends inside a chunk"));
        }
        self.file.seek(SeekFrom::Start(chunk.at))?;
        let mut packed = self.file.by_ref().take(u64::from(chunk.len));
        let mut bytes = Vec::new();
        // One byte more than is announced, to see that there are no more.
        let limit = u64::from(chunk.size) + 1;
        let read = match chunk.packing {
            Packing::None => packed.read_to_end(&mut bytes),
            Packing::Lz4 => FrameDecoder::new(&mut packed)
                .take(limit)
                .read_to_end(&mut bytes),
            Packing::Bz2 => BzDecoder::new(&mut packed)
                .take(limit)
                .read_to_end(&mut bytes),
            Packing::Zstd => StreamingDecoder::new(&mut packed)
                .map_err(io::Error::other)
                .and_then(|decoder| decoder.take(limit).read_to_end(&mut bytes)),
        };
        // Where the decoder stopped is its own affair.
        self.file.seek(SeekFrom::Start(end))?;
        match read {
            Ok(read) if read == chunk.size as usize => Ok(bytes.into()),
            Ok(_) => Err(Fault::Damaged("a chunk has another length than it claims")),
            Err(_) if !matches!(chunk.packing, Packing::None) => {
                Err(Fault::Damaged("a chunk cannot be unpacked"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The length of what follows; `None` at the end of the file.
fn read_len(file: &mut impl Read) -> io::Result<Option<u32>> {
    let mut bytes = Vec::with_capacity(4);
    match file.take(4).read_to_end(&mut bytes)? {
        0 => Ok(None),
        _ => match bytes.try_into() {
            Ok(bytes) => Ok(Some(u32::from_le_bytes(bytes))),
            Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        },
    }
}

/// Memory follows what is there.
fn read_bytes(file: &mut impl Read, len: u32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match file.take(u64::from(len)).read_to_end(&mut bytes)? {
        read if read == len as usize => Ok(bytes),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn skip(file: &mut impl Read, len: u32) -> io::Result<()> {
    match io::copy(&mut file.take(u64::from(len)), &mut io::sink())? {
        read if read == u64::from(len) => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
