//! The relay passes bytes, slows them down, holds them back, and resets connections.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::ErrorKind;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transport_relay::{Path, Proxy};

async fn connected(listener: &TcpListener, proxy: &Proxy) -> (TcpStream, TcpStream) {
    let (near, far) = tokio::join!(TcpStream::connect(proxy.address()), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

async fn relay() -> (TcpListener, Proxy) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::to(listener.local_addr().unwrap()).unwrap();
    (listener, proxy)
}

async fn passes(from: &mut TcpStream, to: &mut TcpStream, bytes: &[u8]) {
    let mut found = vec![0; bytes.len()];
    let (sent, received) = tokio::join!(from.write_all(bytes), to.read_exact(&mut found));
    sent.unwrap();
    received.unwrap();
    assert_eq!(found, bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_path_passes_bytes_and_ends() {
    let (listener, proxy) = relay().await;
    let (mut near, mut far) = connected(&listener, &proxy).await;
    passes(&mut near, &mut far, &vec![7; 1 << 20]).await;
    passes(&mut far, &mut near, b"back").await;
    near.shutdown().await.unwrap();
    assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
    // The other direction is still open.
    passes(&mut far, &mut near, b"afterwards").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_path_holds_bytes_back_and_passes_them_on_when_healed() {
    let (listener, proxy) = relay().await;
    let (mut near, mut far) = connected(&listener, &proxy).await;
    passes(&mut near, &mut far, b"before").await;
    proxy.set(Path::Stalled);
    near.write_all(b"meanwhile").await.unwrap();
    let quiet = std::time::Duration::from_millis(100);
    let mut found = [0; 9];
    let early = tokio::time::timeout(quiet, far.read(&mut found)).await;
    assert!(early.is_err(), "{early:?}");
    proxy.set(Path::Live);
    far.read_exact(&mut found).await.unwrap();
    assert_eq!(&found, b"meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_path_resets_old_and_new_connections_until_healed() {
    let (listener, proxy) = relay().await;
    let (mut near, mut far) = connected(&listener, &proxy).await;
    passes(&mut near, &mut far, b"before").await;
    proxy.set(Path::Cut);
    for stream in [&mut near, &mut far] {
        let error = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    // The reset may be there before the connection is reported.
    if let Ok(mut new) = TcpStream::connect(proxy.address()).await {
        assert!(matches!(new.read(&mut [0]).await, Ok(0) | Err(_)));
    }
    proxy.set(Path::Live);
    let (mut near, mut far) = connected(&listener, &proxy).await;
    passes(&mut near, &mut far, b"after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_path_passes_so_many_bytes_a_second_at_most() {
    let (listener, proxy) = relay().await;
    let (mut near, mut far) = connected(&listener, &proxy).await;
    passes(&mut near, &mut far, b"before").await;
    proxy.set(Path::Slow(std::num::NonZeroU32::new(100_000).unwrap()));
    let begin = std::time::Instant::now();
    passes(&mut near, &mut far, &vec![7; 30_000]).await;
    // The pause of the last slice comes after it.
    assert!(begin.elapsed() >= std::time::Duration::from_millis(250));
    proxy.set(Path::Live);
    passes(&mut near, &mut far, &vec![7; 1 << 20]).await;
}
