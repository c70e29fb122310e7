//! Velodyne lidars: their packets, turns made of them, point clouds made of those, and where scans
//! come from. Which sensors is said by [`Model`].
//!
//! ```
//! use lidar_sensor::{Convention, Converter, downsample, source::SourceSpec};
//!
//! let spec: SourceSpec = "synthetic:7?turns=1".parse()?;
//! let mut source = spec.open()?;
//! let turn = source.next_scan()?.ok_or("the street never ends")?;
//! assert_eq!(turn.scan.packets.len(), 151);
//!
//! let half = downsample(&turn.scan, 50, 1)?;
//! assert_eq!(half.packets.len(), 76);
//!
//! let cloud = Converter::new(Convention::Precise).convert(&turn.scan)?;
//! assert_eq!(cloud.point_step, 22);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bag;
mod capture;
mod continuity;
mod convert;
mod downsample;
mod frame;
mod kitti;
mod model;
mod packet;
mod pcd;
mod sink;
mod socket;
pub mod source;
mod turn;

pub use bag::{Bag, BagError, Connection, Encoding, Recorded};
pub use capture::{Capture, CaptureError, Frame};
pub use convert::{Convention, ConvertError, Converter, EqualPairs, Layout, POINT_STEP, Point};
pub use downsample::{PercentError, downsample};
pub use frame::Content;
pub use kitti::{KittiError, read_kitti, write_kitti};
pub use model::{Geometry, Model, ModelError};
pub use packet::{
    BLOCKS, Block, DATA_PORT, FULL_TURN, PACKET_LEN, POSITION_PACKET_LEN, POSITION_PORT, Packet,
    PacketError, PacketView, Return, ReturnMode, SLOTS,
};
pub use pcd::{PcdError, read_pcd, write_pcd};
pub use sink::{Sink, SinkError, SinkSpec, SinkSpecError};
pub use turn::{FRAME_ID, MAX_PACKETS, Turn, TurnAssembler};
