//! What the kernel says of the sockets; a process of its own, since it looks at all of them.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::time::Duration;

use transport_api::{TransportConfig, TransportFactory};
use transport_zenoh::Factory;

/// An integer option of a descriptor; `None` if it is no socket or has no such option.
fn option(fd: RawFd, level: i32, name: i32) -> Option<i32> {
    let mut value = 0i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the call writes at most `length` bytes to `value`, and both outlive it; a descriptor
    // that is closed meanwhile is an error it returns.
    let outcome =
        unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
    (outcome == 0).then_some(value)
}

/// `TCP_NODELAY` of every connected TCP socket of this process.
fn connections() -> Vec<bool> {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|&fd| option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP))
        .filter(|&fd| option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(0))
        .filter_map(|fd| option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY))
        .map(|value| value != 0)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_socket_has_nodelay() {
    for url in ["zenoh:peer", "zenoh:router"] {
        let config = TransportConfig::parse(url).unwrap();
        let meeting = Factory.meet(&config).await.unwrap();
        let first = Factory.open(&meeting.first).await.unwrap();
        let second = Factory.open(&meeting.second).await.unwrap();
        let found = connections();
        assert!(found.len() >= 2, "{url}: {found:?}");
        assert!(found.iter().all(|nodelay| *nodelay), "{url}: {found:?}");
        second.close(Duration::from_secs(10)).await;
        first.close(Duration::from_secs(10)).await;
        if let Some(host) = meeting.host {
            host.stop().await;
        }
    }
}
