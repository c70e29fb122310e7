//! What is sent.

use bytes::Bytes;

/// Payloads, in bytes: a small message, a scan (`VelodyneScan` of 151 packets) and the cloud of
/// 49,016 points of 22 B that is made of it.
pub const SIZES: [usize; 3] = [64, SCAN, CLOUD];

/// Bytes of a scan.
pub const SCAN: usize = 183_342;

/// Bytes of a cloud.
pub const CLOUD: usize = 1_078_352;

/// Bytes of every answer: an object list.
pub const ANSWER: usize = 4096;

/// Bytes of a request that only asks whether the way is open, and of the answer to it.
pub const PROBE: usize = 16;

static ANSWER_BYTES: [u8; ANSWER] = [0x5a; ANSWER];

/// The answer to a request of `request` bytes.
pub fn answer(request: usize) -> Bytes {
    let length = if request == PROBE { PROBE } else { ANSWER };
    Bytes::from_static(&ANSWER_BYTES[..length])
}

/// `size` bytes that nothing compresses.
pub fn payload(size: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        // xorshift64.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes.into()
}
