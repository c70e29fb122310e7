//! Vehicle and edge started by hand, each with a URL and nothing else, the vehicle first.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use std::process::Command;

use nix::sys::signal::Signal;
use process::{Process, peer, roundtrip};
use transport_conformance::server::{Server, free_port};

/// A round trip by the two URLs; no side starts what both need.
fn meet(edge_url: &str, vehicle_url: &str) {
    let mut command = roundtrip(&["vehicle", "--transport", vehicle_url, "--queue=10"]);
    command.args(["--source=synthetic:1?turns=1", "--samples=10", "--warmup=0"]);
    let mut vehicle = Process::start(command);
    // Without an edge it has nobody to connect to, or nobody who answers.
    vehicle.says("vehicle: ");
    let mut command = roundtrip(&["edge", "--transport", edge_url, "--queue=10"]);
    command.arg("--detector=fixed-delay:1ms");
    let mut edge = Process::start(command);
    edge.says("edge ready");
    assert_eq!(vehicle.code(), Some(0), "{}\n{}", vehicle.said, edge.said);
    edge.send(Signal::SIGINT);
    assert_eq!(edge.code(), Some(0), "{}", edge.said);
}

#[test]
fn two_sides_meet_over_zenoh_without_a_router() {
    let port = free_port();
    meet(
        &format!("zenoh://127.0.0.1:{port}?role=listen"),
        &format!("zenoh://127.0.0.1:{port}"),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sides_meet_at_a_zenoh_router() {
    let Some(zenohd) = peer("zenohd", "ROUNDTRIP_ZENOHD") else {
        return;
    };
    let router = Server::start(move |port| {
        let mut command = Command::new(&zenohd);
        command
            .arg("-l")
            .arg(format!("tcp/127.0.0.1:{port}"))
            .arg("--no-multicast-scouting");
        command.args(["--cfg", "plugins_loading/enabled:false"]);
        command.into()
    })
    .await
    .unwrap();
    let url = format!("zenoh://{}?mode=client", router.address());
    let sides = tokio::task::spawn_blocking(move || meet(&url, &url));
    sides.await.unwrap();
    router.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sides_meet_at_a_ros_master() {
    let Some(rosmaster) = peer("rosmaster", "ROUNDTRIP_ROSMASTER") else {
        return;
    };
    let master = Server::start(move |port| {
        let mut command = Command::new(&rosmaster);
        command.args(["--core", "-p", &port.to_string()]);
        command.into()
    })
    .await
    .unwrap();
    let url = format!("rosmaster://{}", master.address());
    let sides = tokio::task::spawn_blocking(move || meet(&url, &url));
    sides.await.unwrap();
    master.stop().await;
}
