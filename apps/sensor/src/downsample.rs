use lidar_messages::{Packets, VelodyneScan};
use thiserror::Error;

use crate::random::Random;

/// More than all of a scan was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{percent} % of a scan cannot be kept; give 0 to 100")]
pub struct PercentError {
    /// What was asked for.
    pub percent: u8,
}

/// Keeps `percent` of the packets of a scan and drops the others whole.
///
/// The number kept is rounded to the nearest; which ones follows from `seed` alone, every choice
/// is as likely as another, and their order stays. 100 % copies nothing.
///
/// # Errors
///
/// If `percent` is over 100.
pub fn downsample(
    scan: &VelodyneScan,
    percent: u8,
    seed: u64,
) -> Result<VelodyneScan, PercentError> {
    if percent > 100 {
        return Err(PercentError { percent });
    }
    if percent == 100 {
        return Ok(scan.clone());
    }
    let mut left = scan.packets.len();
    let mut wanted = (left * usize::from(percent) + 50) / 100;
    let mut random = Random::new(seed);
    let mut kept = Packets::builder(wanted);
    for packet in scan.packets.iter() {
        // Of the packets left, each is as likely to be among those still wanted.
        if random.below(left as u64) < wanted as u64 {
            kept.push(packet.stamp, packet.data);
            wanted -= 1;
        }
        left -= 1;
    }
    Ok(VelodyneScan {
        header: scan.header.clone(),
        packets: kept.build(),
    })
}
