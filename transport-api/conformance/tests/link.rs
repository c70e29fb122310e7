//! Each peer has a path of its own.

#![allow(clippy::unwrap_used, reason = "a test")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transport_conformance::{LinkControl, Links};

#[tokio::test(flavor = "multi_thread")]
async fn each_peer_has_a_path_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let links = Links::to(listener.local_addr().unwrap());
    assert_ne!(links.address("a"), links.address("b"));
    assert_eq!(links.address("a"), links.address("a"));
    links.cut("a").await;
    let (near, far) = tokio::join!(TcpStream::connect(links.address("b")), listener.accept());
    let (mut near, mut far) = (near.unwrap(), far.unwrap().0);
    let mut found = [0; 5];
    near.write_all(b"alive").await.unwrap();
    far.read_exact(&mut found).await.unwrap();
    assert_eq!(&found, b"alive");
}
