//! Masters, ROS programs and messages for the tests.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use transport_api::{Schema, TransportConfig};

/// A watchdog, far above what a step takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A schema from the hexadecimal md5 sum.
pub(crate) fn schema(name: &str, sum: &str, definition: &str) -> Schema {
    let mut fingerprint = [0; 16];
    for (at, byte) in fingerprint.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&sum[2 * at..2 * at + 2], 16).unwrap();
    }
    Schema::new(name, fingerprint, definition)
}

/// `std_msgs/String`.
pub(crate) fn string() -> Schema {
    schema(
        "std_msgs/String",
        "992ce8a1687cec8c8bd883ec73ca41d1",
        "string data\n",
    )
}

/// A `std_msgs/String` on the wire.
pub(crate) fn text(text: &str) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u32_le(text.len() as u32);
    bytes.put_slice(text.as_bytes());
    bytes.freeze()
}

/// A ROS program that is told the master; killed when dropped.
pub(crate) struct Program {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// The folder of the peers' sources.
pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers")
}

/// A command in the surroundings of ROS, with its master.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, master: &TransportConfig) -> Command {
    let url = master.url();
    let address = format!("http://{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let mut command = Command::new(program);
    command
        .env("ROS_MASTER_URI", address)
        .env("ROS_IP", "127.0.0.1")
        .env_remove("ROS_HOSTNAME")
        .kill_on_drop(true);
    command
}

impl Program {
    /// Starts a program.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = child.stdout.take().unwrap();
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The next line it prints.
    pub(crate) async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("a program prints a line before the watchdog ends");
        line.unwrap().expect("a program does not end early")
    }

    /// Waits until it says that it is ready.
    pub(crate) async fn ready(&mut self) {
        while self.line().await != "ready" {}
    }
}

/// The whole output of a program that ends by itself.
pub(crate) async fn output(command: &mut Command) -> String {
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output
        .unwrap_or_else(|_| panic!("{command:?} does not end"))
        .unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
