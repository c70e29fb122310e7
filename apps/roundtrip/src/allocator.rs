//! Settings of the C library's allocator.

// `mallopt` has no safe wrapper.
#![allow(unsafe_code)]

/// The settings in force, as the environment variables that would give a broker the same.
///
/// glibc returns blocks above 128 KiB to the kernel and faults them in again for every message; at
/// 1 MB that costs more than the transport itself.
pub(crate) const SETTINGS: [(&str, usize); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", 64 << 20),
    ("MALLOC_TRIM_THRESHOLD_", 64 << 20),
    ("MALLOC_TOP_PAD_", 16 << 20),
];

/// Applies [`SETTINGS`] to this process, and says whether the C library took them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn tune() -> bool {
    let names = [
        libc::M_MMAP_THRESHOLD,
        libc::M_TRIM_THRESHOLD,
        libc::M_TOP_PAD,
    ];
    let mut taken = true;
    for (name, (_, bytes)) in names.into_iter().zip(SETTINGS) {
        // SAFETY: mallopt takes two numbers and may be called at any time; it is called before
        // other threads are started.
        taken &= unsafe { libc::mallopt(name, bytes as libc::c_int) } == 1;
    }
    taken
}

/// Other C libraries have no such settings.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn tune() -> bool {
    false
}
