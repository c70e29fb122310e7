//! What the kernel says of the sockets; a process of its own, since it looks at all of them, and
//! one test after the other.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(unsafe_code)]

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use transport_api::{TransportConfig, TransportFactory};
use transport_zenoh::Factory;

/// A watchdog, far above what anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

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

/// Held by the test that looks at the sockets of the process.
static TURN: Mutex<()> = Mutex::new(());

fn alone(test: impl Future<Output = ()>) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(async { tokio::time::timeout(PATIENCE, test).await })
        .expect("it ends before the watchdog barks");
}

#[test]
fn every_socket_has_nodelay() {
    alone(async {
        for url in ["zenoh:peer", "zenoh:router"] {
            nodelay(url).await;
        }
    });
}

async fn nodelay(url: &str) {
    let config = TransportConfig::parse(url).unwrap();
    let meeting = Factory.meet(&config).await.unwrap();
    let first = Factory.open(&meeting.first).await.unwrap();
    let second = Factory.open(&meeting.second).await.unwrap();
    let found = connections();
    assert!(found.len() >= 2, "{url}: {found:?}");
    assert!(found.iter().all(|nodelay| *nodelay), "{url}: {found:?}");
    second.close(PATIENCE).await;
    first.close(PATIENCE).await;
    if let Some(host) = meeting.host {
        host.stop().await;
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn an_embedded_router_stops_and_frees_its_port_20_times() {
    alone(async {
        let mut files = 0;
        for round in 0..20 {
            let config = TransportConfig::parse("zenoh:router").unwrap();
            let meeting = Factory.meet(&config).await.unwrap();
            let port = meeting.first.url().port().unwrap();
            let side = Factory.open(&meeting.first).await.unwrap();
            side.close(PATIENCE).await;
            meeting.host.unwrap().stop().await;
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
            if round == 2 {
                files = open_files();
            }
        }
        while open_files() > files + 2 {
            tokio::task::yield_now().await;
        }
    });
}
