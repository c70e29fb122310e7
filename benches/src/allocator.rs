//! Settings of the C library's allocator.

/// What every process of a measurement gets in its environment: ours, brokers and routers alike.
///
/// glibc returns blocks above 128 KiB to the kernel and faults them in again for every message; at
/// 1 MB that costs more than the transport itself. The program `roundtrip` sets the same.
pub const SETTINGS: [(&str, usize); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", 64 << 20),
    ("MALLOC_TRIM_THRESHOLD_", 64 << 20),
    ("MALLOC_TOP_PAD_", 16 << 20),
];
