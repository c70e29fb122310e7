//! What the vehicle sends: a loop of prepared scans.

use bytes::Bytes;
use exchange::DataType;
use lidar_messages::{Header, PointCloud2, VelodyneScan};
use lidar_sensor::{Convention, ConvertError, Converter};

/// A loop of scans or clouds, prepared before the trial so that generating costs it nothing.
#[derive(Clone, Debug)]
pub struct Feed {
    frames: Frames,
    empty: Bytes,
}

#[derive(Clone, Debug)]
enum Frames {
    Scans(Vec<VelodyneScan>),
    Clouds(Vec<PointCloud2>),
}

impl Feed {
    /// A loop of `scans`, sent as `data_type`; clouds are converted by `convention`. An empty list
    /// gives empty scans.
    ///
    /// # Errors
    /// A scan holds a packet that is not a VLP-32C data packet.
    pub fn new(
        scans: Vec<VelodyneScan>,
        data_type: DataType,
        convention: Convention,
    ) -> Result<Self, ConvertError> {
        let frame_id = scans
            .first()
            .map_or("velodyne".into(), |scan| scan.header.frame_id.clone());
        let header = Header {
            frame_id,
            ..Header::default()
        };
        let empty = VelodyneScan {
            header,
            ..VelodyneScan::default()
        };
        Ok(match data_type {
            DataType::Scan => Self {
                frames: Frames::Scans(scans),
                empty: empty.encode(),
            },
            DataType::Cloud => {
                let mut converter = Converter::new(convention);
                let empty = converter.convert(&empty)?.encode();
                let clouds = scans.iter().map(|scan| converter.convert(scan));
                Self {
                    frames: Frames::Clouds(clouds.collect::<Result<_, _>>()?),
                    empty,
                }
            }
        })
    }

    /// As what the scans are sent.
    pub fn data_type(&self) -> DataType {
        match self.frames {
            Frames::Scans(_) => DataType::Scan,
            Frames::Clouds(_) => DataType::Cloud,
        }
    }

    /// Payload of scan number `n` of the trial: the loop's turn under header number `seq`.
    pub(crate) fn encode(&self, n: usize, seq: u32) -> Bytes {
        match &self.frames {
            Frames::Scans(scans) if !scans.is_empty() => {
                let mut scan = scans[n % scans.len()].clone();
                scan.header.seq = seq;
                scan.encode()
            }
            Frames::Clouds(clouds) if !clouds.is_empty() => {
                let mut cloud = clouds[n % clouds.len()].clone();
                cloud.header.seq = seq;
                cloud.encode()
            }
            _ => self.empty.clone(),
        }
    }

    /// Bytes of the largest payload.
    pub(crate) fn largest(&self) -> usize {
        let frames = match &self.frames {
            Frames::Scans(scans) => scans.iter().map(VelodyneScan::encoded_len).max(),
            Frames::Clouds(clouds) => clouds.iter().map(PointCloud2::encoded_len).max(),
        };
        frames.unwrap_or(0).max(self.empty.len())
    }

    /// Payload of a scan without packets or a cloud without points.
    pub(crate) fn empty(&self) -> Bytes {
        self.empty.clone()
    }
}
