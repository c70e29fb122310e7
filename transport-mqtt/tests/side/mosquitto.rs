//! Mosquitto in a process of its own.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

use tokio::process::Command;
use transport_conformance::server::{self, Server};

/// Starts it with `lines` of configuration besides its listener; `None` if it is not installed,
/// unless `CONFORMANCE_REQUIRE=all` demands it.
pub(crate) async fn start(lines: impl Into<String>) -> Option<Server> {
    let lines = lines.into();
    let required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "all");
    let program = match server::find("mosquitto", "ROUNDTRIP_MOSQUITTO", "scripts/install-peers") {
        Ok(program) => program,
        Err(reason) if required => panic!("{reason}"),
        Err(reason) => {
            println!("left out: {reason}");
            return None;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(move |port| {
        let file = folder.path().join("mosquitto.conf");
        let fixed = "set_tcp_nodelay true\nuser root\n";
        std::fs::write(&file, format!("{fixed}listener {port}\n{lines}\n")).unwrap();
        let mut command = Command::new(&program);
        command.arg("-c").arg(file);
        command
    });
    Some(server.await.unwrap())
}
