//! The programs of a test: ours, and those of ROS.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// A watchdog, far above what a step takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A program that runs; killed when dropped.
pub(crate) struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
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

    /// The first line with `text` on its standard error, which has to be piped.
    pub(crate) async fn error_with(&mut self, text: &str) -> String {
        let mut lines = BufReader::new(self.child.stderr.take().unwrap()).lines();
        let reading = async {
            loop {
                let line = lines.next_line().await.unwrap();
                let line = line.expect("a program does not end early");
                if line.contains(text) {
                    return line;
                }
            }
        };
        let line = tokio::time::timeout(PATIENCE, reading).await;
        line.expect("a program says what it has to before the watchdog ends")
    }

    pub(crate) fn send(&self, signal: Signal) {
        let pid = self.child.id().expect("a program does not end early");
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
    }

    /// Waits for its end, reading what it says until then.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        let ended = async {
            while self.lines.next_line().await.unwrap().is_some() {}
            self.child.wait().await.unwrap()
        };
        let status = tokio::time::timeout(PATIENCE, ended).await;
        status.expect("a program ends before the watchdog")
    }

    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// The folder of the peers' sources.
pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ros_nodes/peers")
}

/// `roundtrip` with `arguments`.
pub(crate) fn ours(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(arguments);
    command
}

/// The same in the program of this test, which has transports that panic.
pub(crate) fn again(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments);
    command
}

/// Whether this process was started by [`again`].
pub(crate) fn is_side() -> bool {
    let first = std::env::args().nth(1);
    first.is_some_and(|first| ["vehicle", "edge"].contains(&&*first))
}

/// A command in the surroundings of ROS, with the master at `address`.
pub(crate) fn ros(program: impl AsRef<OsStr>, address: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("ROS_MASTER_URI", format!("http://{address}"))
        .env("ROS_IP", "127.0.0.1")
        .env_remove("ROS_HOSTNAME");
    command
}

/// One of the Python programs of this test.
pub(crate) fn peer(name: &str, address: &str) -> Command {
    let mut command = ros(PYTHON, address);
    // No compiled files in the source tree.
    command.arg("-B").arg(peers().join(name));
    command
}

/// The whole output of a program that ends by itself.
pub(crate) async fn output(command: &mut Command) -> String {
    command.kill_on_drop(true).stdin(Stdio::null());
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
