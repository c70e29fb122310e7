use lidar_messages::{Packets, VelodyneScan};
use lidar_scene::Random;
use thiserror::Error;

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
    // A message has fewer than 2^32 bytes.
    let mut left = scan.packets.len() as u32;
    let mut wanted = ((u64::from(left) * u64::from(percent) + 50) / 100) as u32;
    let mut random = Random::new(seed);
    let mut kept = Packets::builder(wanted as usize);
    for packet in scan.packets.iter() {
        // Of the packets left, each is as likely to be among those still wanted.
        if random.below(left) < wanted {
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
