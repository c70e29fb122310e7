//! The program as a child process, what it says, and what it leaves behind.

#![allow(dead_code, reason = "each test program uses its part")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use transport_conformance::server::find;

/// Generous: a watchdog, not a promise.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);

/// A child that is killed at the end of its test, with what it says on either output.
pub(crate) struct Process {
    pub(crate) child: Child,
    readers: Vec<JoinHandle<()>>,
    lines: Arc<Mutex<String>>,
    pub(crate) said: String,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(String::new()));
        let outputs: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        let readers = outputs.map(|output| {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let mut lines = lines.lock().unwrap();
                    lines.push_str(&line);
                    lines.push('\n');
                }
            })
        });
        Self {
            child,
            readers: readers.into(),
            lines,
            said: String::new(),
        }
    }

    fn listen(&mut self) {
        self.said.clone_from(&self.lines.lock().unwrap());
    }

    /// Waits until it has said `text`.
    pub(crate) fn says(&mut self, text: &str) {
        let begin = Instant::now();
        while !self.said.contains(text) {
            let said = &self.said;
            assert!(
                begin.elapsed() < WATCHDOG,
                "waited in vain for `{text}`:\n{said}"
            );
            std::thread::sleep(Duration::from_millis(20));
            self.listen();
        }
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    /// Waits for the end and returns the exit code.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                for reader in self.readers.drain(..) {
                    reader.join().unwrap();
                }
                self.listen();
                return status.code();
            }
            assert!(begin.elapsed() < WATCHDOG, "still running:\n{}", self.said);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already if all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program with `arguments`.
pub(crate) fn roundtrip(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A program that tests talk to, or `None` after saying that it is missing.
pub(crate) fn peer(name: &str, variable: &str) -> Option<PathBuf> {
    match find(name, variable, "scripts/install-peers") {
        Ok(program) => Some(program),
        Err(reason) => missing(&reason.to_string()),
    }
}

/// The folder of recordings, or `None` after saying that it is missing: nothing can install it.
pub(crate) fn recordings() -> Option<PathBuf> {
    let folder = std::env::var_os("ROUNDTRIP_DATA").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: ROUNDTRIP_DATA is not set");
    }
    folder
}

/// What a test needs is not there: a failure where everything is required.
fn missing<T>(reason: &str) -> Option<T> {
    let required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|what| what == "all");
    assert!(!required, "{reason}");
    println!("skipped: {reason}");
    None
}

/// The one folder below `results`.
pub(crate) fn only_folder(results: &Path) -> PathBuf {
    let mut folders = std::fs::read_dir(results)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let folder = folders.next().unwrap();
    assert!(folders.next().is_none());
    folder
}

/// The arms in the summary of the one run below `results`.
pub(crate) fn arms(results: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(only_folder(results).join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    summary["arms"].as_array().unwrap().clone()
}

/// Waits until `condition` has a value.
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begin.elapsed() < WATCHDOG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes that `pid` has started and that still run.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

pub(crate) fn is_running(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended; whoever inherited it has not looked yet.
    let state = state
        .rsplit_once(") ")
        .map(|(_, rest)| rest.starts_with('Z'));
    state == Some(false)
}

/// The child of `pid` that runs the subcommand `name`.
pub(crate) fn child_called(pid: u32, name: &str) -> Option<u32> {
    children_of(pid).into_iter().find(|child| {
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(name.as_bytes())
    })
}

/// Sends `signal` to process `pid`.
pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

/// `roundtrip host` and the addresses that it prints.
pub(crate) struct Host {
    pub(crate) process: Process,
    pub(crate) edge: String,
    pub(crate) vehicle: String,
}

impl Host {
    pub(crate) fn start(transport: &str) -> Self {
        let mut process = Process::start(roundtrip(&["host", "--transport", transport]));
        process.says("stop with Ctrl-C");
        let mut urls = process.said.split('\'').skip(1).step_by(2);
        let (edge, vehicle) = (urls.next().unwrap().into(), urls.next().unwrap().into());
        Self {
            process,
            edge,
            vehicle,
        }
    }
}
