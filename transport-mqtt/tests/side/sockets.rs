//! The sockets of this process.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

use crate::side::within;

/// Whether the test of this name runs alone in its process, since sockets belong to a process; else
/// runs it so.
pub(crate) async fn alone(test: &str) -> bool {
    const ALONE: &str = "TRANSPORT_MQTT_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(ALONE, "1")
        .output();
    let output = within(child).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && printed.contains("1 passed");
    assert!(passed, "{printed}");
    false
}

/// How many sockets of this process are connected over TCP, and how many of them delay packets.
#[allow(unsafe_code)]
pub(crate) fn connected() -> (usize, usize) {
    let (mut connected, mut delaying) = (0, 0);
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let fd: i32 = entry
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        let read = |level, option| {
            let mut value: libc::c_int = 0;
            let mut size = size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: value and size are valid for writes of their types; a descriptor that is no
            // socket or closed meanwhile is an error that is returned.
            let result = unsafe {
                libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut size)
            };
            (result == 0).then_some(value)
        };
        if read(libc::SOL_SOCKET, libc::SO_ACCEPTCONN) != Some(0)
            || read(libc::SOL_SOCKET, libc::SO_PROTOCOL) != Some(libc::IPPROTO_TCP)
        {
            continue;
        }
        connected += 1;
        delaying += usize::from(read(libc::IPPROTO_TCP, libc::TCP_NODELAY) == Some(0));
    }
    (connected, delaying)
}
