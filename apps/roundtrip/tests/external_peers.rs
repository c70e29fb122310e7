//! The product over a real broker, router and master, chosen by URL alone.
//!
//! Where a program is not installed its test says so and passes, unless `CONFORMANCE_REQUIRE=all`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use process::{arms, peer, roundtrip};
use serde_json::Value;
use tokio::process::Command;
use transport_conformance::server::Server;

/// Runs the main job over `url` with the flags of `more`; whether it succeeded, and its summary.
async fn run(url: &str, more: &[&str]) -> (bool, Value) {
    let results = tempfile::tempdir().unwrap();
    let mut command = roundtrip(&["run", "--samples=20", "--warmup=5", "--rate=20"]);
    command
        .args(["--source=synthetic:1?turns=2", "--detector=fixed-delay:2ms"])
        // Nothing gives way, so that a busy machine does not make a sample missed.
        .args(["--queue=30", "--transport", url, "--results"])
        .arg(results.path())
        .args(more);
    let output = Command::from(command).output().await.unwrap();
    println!("{}", String::from_utf8_lossy(&output.stderr));
    (output.status.success(), arms(results.path()).swap_remove(0))
}

/// Runs the main job and checks that nothing was missed.
async fn run_over(url: &str, more: &[&str]) {
    let (success, arm) = run(url, more).await;
    assert!(success, "{url} {more:?}: {arm:#}");
    assert_eq!(arm["answered"], 20, "{url} {more:?}: {arm:#}");
    assert_eq!(
        arm["missed_by_direction"]["up"], 0,
        "{url} {more:?}: {arm:#}"
    );
    assert_eq!(
        arm["missed_by_direction"]["down"], 0,
        "{url} {more:?}: {arm:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_main_job_runs_over_mosquitto_at_every_guarantee() {
    let Some(mosquitto) = peer("mosquitto", "ROUNDTRIP_MOSQUITTO") else {
        return;
    };
    // The configuration that the README tells users to start, on a free port.
    let shipped = include_str!("../../../scripts/mosquitto.conf");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mosquitto.conf");
    let path = file.clone();
    let broker = Server::start(move |port| {
        let text = shipped.replace("listener 1883", &format!("listener {port}"));
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(&mosquitto);
        command.arg("-c").arg(&path);
        command
    })
    .await
    .unwrap();
    let url = format!("mqtt://{}", broker.address());
    for qos in ["at-most-once", "at-least-once", "exactly-once"] {
        run_over(&url, &[&format!("--qos={qos}")]).await;
    }
    run_over(&url, &["--data-type=cloud"]).await;
    broker.stop().await;
}

/// A broker that takes a message and throws it away shows as missed, never as a latency.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_broker_swallows_is_reported_as_missed() {
    let Some(mosquitto) = peer("mosquitto", "ROUNDTRIP_MOSQUITTO") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mosquitto.conf");
    let broker = Server::start(move |port| {
        let text = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\n\
             message_size_limit 524288\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(&mosquitto);
        command.arg("-c").arg(&file);
        command
    })
    .await
    .unwrap();
    let url = format!("mqtt://{}", broker.address());
    run_over(&url, &["--qos=at-least-once"]).await;
    let (success, arm) = run(&url, &["--qos=at-least-once", "--data-type=cloud"]).await;
    assert!(!success, "{arm:#}");
    assert_eq!(arm["offered"], 20, "{arm:#}");
    assert_eq!(arm["answered"], 0, "{arm:#}");
    // Missed, or handed back while the queue was full of what the broker does not take.
    let number = |name: &str| arm[name].as_u64().unwrap();
    assert_eq!(number("missed") + number("rejected"), 20, "{arm:#}");
    assert!(arm["total_ns"].is_null(), "{arm:#}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_main_job_runs_over_a_zenoh_router() {
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
        command
    })
    .await
    .unwrap();
    let url = format!("zenoh://{}?mode=client", router.address());
    run_over(&url, &[]).await;
    run_over(&url, &["--data-type=cloud"]).await;
    router.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_main_job_runs_over_a_real_ros_master() {
    let Some(rosmaster) = peer("rosmaster", "ROUNDTRIP_ROSMASTER") else {
        return;
    };
    let master = Server::start(move |port| {
        let mut command = Command::new(&rosmaster);
        command.args(["--core", "-p", &port.to_string()]);
        command
    })
    .await
    .unwrap();
    let url = format!("rosmaster://{}", master.address());
    run_over(&url, &[]).await;
    run_over(&url, &["--data-type=cloud"]).await;
    master.stop().await;
}
