use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use lidar_messages::{Header, PointCloud2, Time};
use thiserror::Error;

use super::{SourceError, Statistics};
use crate::{
    kitti::{KittiError, read_kitti},
    pcd::{PcdError, read_pcd},
    turn::FRAME_ID,
};

/// Largest file that is read, in bytes: a hundred times a cloud of a dual return.
const MAX_FILE: u64 = 1 << 28;

/// Most files of a folder: days at 10 Hz.
const MAX_FILES: usize = 1 << 22;

/// Nanoseconds between clouds that have no time: the sensors of such collections turn ten times a
/// second.
const TURN_NANOS: u64 = 100_000_000;

/// How files hold clouds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudFormat {
    /// Point Cloud Data, the format of PCL: ascii, binary or packed.
    Pcd,
    /// As in the KITTI collections: x, y, z in metres and reflectance from 0 to 1, as `float32`,
    /// nothing else.
    Kitti,
}

/// Why a file holds no cloud.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CloudFileError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is larger than any cloud.
    #[error("{len} B are more than any cloud has; {MAX_FILE} B are the most that is read")]
    Large {
        /// Bytes of the file.
        len: u64,
    },
    /// It is no PCD file.
    #[error(transparent)]
    Pcd(#[from] PcdError),
    /// It is no KITTI file.
    #[error(transparent)]
    Kitti(#[from] KittiError),
    /// A folder without any of the files that were looked for.
    #[error("the folder holds no file that ends with .{ending}")]
    Empty {
        /// How they end.
        ending: &'static str,
    },
    /// A folder with too many.
    #[error("the folder holds more than {MAX_FILES} files; split it")]
    Many,
}

/// Clouds from a file, or from the files of a folder in the order of their names.
///
/// These files tell no time, so the first cloud is stamped with 0 and each next one a tenth of a
/// second later.
#[derive(Debug)]
pub struct CloudFiles {
    format: CloudFormat,
    files: Vec<PathBuf>,
    next: usize,
}

impl CloudFormat {
    fn ending(self) -> &'static str {
        match self {
            Self::Pcd => "pcd",
            Self::Kitti => "bin",
        }
    }

    fn read(self, path: &Path, header: Header) -> Result<PointCloud2, CloudFileError> {
        let len = fs::metadata(path)?.len();
        if len > MAX_FILE {
            return Err(CloudFileError::Large { len });
        }
        let bytes = Bytes::from(fs::read(path)?);
        match self {
            Self::Pcd => Ok(read_pcd(&bytes, header)?),
            Self::Kitti => Ok(read_kitti(bytes, header)?),
        }
    }
}

impl CloudFiles {
    /// Looks for the files.
    ///
    /// # Errors
    ///
    /// If `path` cannot be read or is a folder without such files.
    pub fn open(path: &Path, format: CloudFormat) -> Result<Self, SourceError> {
        let files = list(path, format.ending()).map_err(|reason| SourceError::CloudFile {
            path: path.to_owned(),
            reason,
        })?;
        Ok(Self {
            format,
            files,
            next: 0,
        })
    }

    /// The next cloud, or `None` after the last.
    ///
    /// # Errors
    ///
    /// If its file cannot be read. The next call goes on behind it.
    pub fn next_cloud(&mut self) -> Result<Option<PointCloud2>, SourceError> {
        let Some(path) = self.files.get(self.next) else {
            return Ok(None);
        };
        let header = Header {
            // Sequence numbers of ROS wrap.
            seq: self.next as u32,
            stamp: Time::from_nanos(self.next as u64 * TURN_NANOS),
            frame_id: FRAME_ID.into(),
        };
        self.next += 1;
        let cloud = self.format.read(path, header);
        cloud.map(Some).map_err(|reason| SourceError::CloudFile {
            path: path.clone(),
            reason,
        })
    }

    /// What was returned so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            turns: self.next as u64,
            ..Statistics::default()
        }
    }
}

fn list(path: &Path, ending: &'static str) -> Result<Vec<PathBuf>, CloudFileError> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            if files.len() == MAX_FILES {
                return Err(CloudFileError::Many);
            }
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(CloudFileError::Empty { ending });
    }
    files.sort();
    Ok(files)
}
