use std::{
    fs::{self, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    str::FromStr,
};

use lidar_messages::{LayoutError, VelodyneScan};
use tempfile::{NamedTempFile, TempDir};
use thiserror::Error;

use crate::{
    convert::{Convention, ConvertError, Converter},
    kitti::write_kitti,
    packet::{DATA_PORT, PACKET_LEN},
    pcd::write_pcd,
    source::{CloudFormat, Sweep},
};

/// Bytes before the data in a frame: Ethernet, IPv4, UDP.
const HEADERS_LEN: usize = 14 + 20 + 8;

/// Where scans and clouds are written to; see [`SinkSpec::from_str`] for the texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkSpec {
    /// A capture of the packets.
    Packets {
        /// The file.
        path: PathBuf,
    },
    /// Clouds, in a file each.
    Clouds {
        /// The folder.
        path: PathBuf,
        /// What the files are.
        format: CloudFormat,
    },
}

/// A text that names no place to write to.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} names nothing to write; give pcap:FILE, pcd:FOLDER or kitti:FOLDER")]
pub struct SinkSpecError {
    /// The text.
    pub text: String,
}

/// Why something was not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The file or folder cannot be made or written. What is there is never overwritten, and a folder
    /// has to be empty.
    #[error("cannot write {}: {reason}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// A capture holds packets, and a cloud has none.
    #[error("clouds cannot become packets; write them to pcd:FOLDER or kitti:FOLDER")]
    NoPackets,
    /// A scan cannot be converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The points of a cloud cannot be read.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Writes scans and clouds.
///
/// A capture has nanoseconds, and a frame for each packet as a sensor with factory settings
/// broadcasts it. Files of clouds are numbered from `000000`; scans are converted for them.
/// Intensities are written as they are: 0 to 255 for a Velodyne, where KITTI has 0 to 1.
///
/// All is written beside its place and only moved there at the end: what was not finished leaves
/// nothing behind.
#[derive(Debug)]
pub struct Sink {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Packets(BufWriter<NamedTempFile>),
    Clouds {
        folder: TempDir,
        format: CloudFormat,
        converter: Converter,
        next: u64,
    },
}

impl FromStr for SinkSpec {
    type Err = SinkSpecError;

    /// `pcap:FILE`, `pcd:FOLDER` or `kitti:FOLDER`.
    fn from_str(text: &str) -> Result<Self, SinkSpecError> {
        let unknown = || SinkSpecError {
            text: text.to_owned(),
        };
        let (kind, path) = text.split_once(':').ok_or_else(unknown)?;
        if path.is_empty() {
            return Err(unknown());
        }
        let path = PathBuf::from(path);
        match kind {
            "pcap" => Ok(Self::Packets { path }),
            "pcd" => Ok(Self::Clouds {
                path,
                format: CloudFormat::Pcd,
            }),
            "kitti" => Ok(Self::Clouds {
                path,
                format: CloudFormat::Kitti,
            }),
            _ => Err(unknown()),
        }
    }
}

impl SinkSpec {
    /// Begins a file or a folder. Scans that become clouds are converted by `convention`.
    ///
    /// # Errors
    ///
    /// If nothing can be written there, the file is there already, or the folder holds something.
    pub fn create(&self, convention: Convention) -> Result<Sink, SinkError> {
        let path = match self {
            Self::Packets { path } | Self::Clouds { path, .. } => path,
        };
        let target = match self {
            Self::Packets { .. } => begin_capture(path),
            Self::Clouds { format, .. } => begin_folder(path).map(|folder| Target::Clouds {
                folder,
                format: *format,
                converter: Converter::new(convention),
                next: 0,
            }),
        };
        Ok(Sink {
            path: path.clone(),
            target: target.map_err(|reason| failed(path, reason))?,
        })
    }
}

fn begin_capture(path: &Path) -> io::Result<Target> {
    if path.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let (folder, builder) = beside(path, 0o666);
    let mut file = BufWriter::new(builder.tempfile_in(folder)?);
    // Magic of nanoseconds, version, zone, accuracy, longest frame, Ethernet.
    let words = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1_u32];
    file.write_all(words.map(u32::to_le_bytes).as_flattened())?;
    Ok(Target::Packets(file))
}

fn begin_folder(path: &Path) -> io::Result<TempDir> {
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let (folder, builder) = beside(path, 0o777);
    fs::create_dir_all(folder)?;
    builder.tempdir_in(folder)
}

impl Sink {
    /// Writes a scan or a cloud.
    ///
    /// # Errors
    ///
    /// If it cannot be written as what the sink holds, a file of its number is there already, or
    /// the disk is full.
    pub fn write(&mut self, sweep: &Sweep) -> Result<(), SinkError> {
        match (&mut self.target, sweep) {
            (Target::Packets(file), Sweep::Scan(turn)) => {
                let written = write_packets(file, &turn.scan);
                written.map_err(|reason| failed(&self.path, reason))
            }
            (Target::Packets(_), Sweep::Cloud(_)) => Err(SinkError::NoPackets),
            (
                Target::Clouds {
                    folder,
                    format,
                    converter,
                    next,
                },
                sweep,
            ) => {
                let converted;
                let cloud = match sweep {
                    Sweep::Scan(turn) => {
                        converted = converter.convert(&turn.scan)?;
                        &converted
                    }
                    Sweep::Cloud(cloud) => cloud,
                };
                let (ending, bytes) = match format {
                    CloudFormat::Pcd => ("pcd", write_pcd(cloud)?),
                    CloudFormat::Kitti => ("bin", write_kitti(cloud)?),
                };
                let name = format!("{next:06}.{ending}");
                *next += 1;
                fs::write(folder.path().join(&name), bytes)
                    .map_err(|reason| failed(&self.path.join(name), reason))
            }
        }
    }

    /// Moves what was written to its place.
    ///
    /// # Errors
    ///
    /// If that fails, or something has come there meanwhile.
    pub fn finish(self) -> Result<(), SinkError> {
        let path = &self.path;
        let finished = match self.target {
            Target::Packets(file) => match file.into_inner() {
                Ok(file) => file
                    .persist_noclobber(path)
                    .map(drop)
                    .map_err(|error| error.error),
                Err(error) => Err(error.into_error()),
            },
            // Replaces an empty folder and nothing else.
            Target::Clouds { folder, .. } => match fs::rename(folder.path(), path) {
                Ok(()) => {
                    let _moved = folder.keep();
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        finished.map_err(|reason| failed(path, reason))
    }
}

fn failed(path: &Path, reason: io::Error) -> SinkError {
    SinkError::Io {
        path: path.to_owned(),
        reason,
    }
}

/// The folder of `path`, and how things are made in it that are to become `path`: by a name beside
/// it, with the permissions of any other file.
fn beside(path: &Path, mode: u32) -> (&Path, tempfile::Builder<'static, 'static>) {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder
        .prefix(".unfinished-")
        .permissions(Permissions::from_mode(mode));
    (folder, builder)
}

fn write_packets(file: &mut impl Write, scan: &VelodyneScan) -> io::Result<()> {
    let headers = headers();
    // Less than 64 KiB.
    let len = (HEADERS_LEN + PACKET_LEN) as u32;
    for packet in scan.packets.iter() {
        for word in [packet.stamp.secs, packet.stamp.nsecs, len, len] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(&headers)?;
        file.write_all(packet.data)?;
    }
    Ok(())
}

/// What stands before every packet of a sensor with factory settings.
fn headers() -> [u8; HEADERS_LEN] {
    let mut headers = [0; HEADERS_LEN];
    let [ethernet, ip, udp] = [0, 14, 34];
    // From a locally given address to all.
    headers[ethernet..6].fill(0xff);
    headers[6] = 0x02;
    headers[12..14].copy_from_slice(&[0x08, 0x00]);
    let length = |len: usize| (len as u16).to_be_bytes();
    headers[ip..ip + 2].copy_from_slice(&[0x45, 0]);
    headers[ip + 2..ip + 4].copy_from_slice(&length(HEADERS_LEN - ip + PACKET_LEN));
    // Not to be split; 255 hops; UDP.
    headers[ip + 6..ip + 10].copy_from_slice(&[0x40, 0, 255, 17]);
    headers[ip + 12..ip + 20].copy_from_slice(&[192, 168, 1, 201, 255, 255, 255, 255]);
    let checksum = checksum(&headers[ip..udp]);
    headers[ip + 10..ip + 12].copy_from_slice(&checksum);
    headers[udp..udp + 2].copy_from_slice(&DATA_PORT.to_be_bytes());
    headers[udp + 2..udp + 4].copy_from_slice(&DATA_PORT.to_be_bytes());
    headers[udp + 4..udp + 6].copy_from_slice(&length(HEADERS_LEN - udp + PACKET_LEN));
    headers
}

/// The checksum of an IPv4 header in which it is still 0.
fn checksum(header: &[u8]) -> [u8; 2] {
    let words = header.as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    // Folded twice it fits 16 bits.
    (!(fold(fold(sum)) as u16)).to_be_bytes()
}
