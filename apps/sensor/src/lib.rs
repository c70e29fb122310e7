//! The Velodyne VLP-32C.
mod convert;
mod downsample;
mod packet;
mod random;
pub mod vlp32c;

pub use convert::{Convention, ConvertError, Converter, EqualPairs, Layout, POINT_STEP, Point};
pub use downsample::{PercentError, downsample};
pub use packet::{Block, Packet, PacketError, PacketView, Return, ReturnMode};
