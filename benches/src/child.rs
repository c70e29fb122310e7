//! A `bench-peer` process, seen from the bench.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::allocator;
use crate::failure::{Failure, Result};

/// How long a process may take to answer; a watchdog for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// A process that ends, at the latest, when this is dropped.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: std::process::Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Child {
    /// Starts `program`, with the allocator settings, and returns what it says when it is ready.
    ///
    /// # Errors
    /// It could not be started, or what it says instead.
    pub fn start(
        program: &OsStr,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<(Self, String)> {
        let name = arguments[..arguments.len().min(2)].join(" ");
        let mut process = Command::new(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .envs(allocator::SETTINGS.map(|(key, value)| (key, value.to_string())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::new(&name, error))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (said, lines) = sync_channel(4);
        if let Some(output) = output {
            thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    let Ok(line) = line else { return };
                    if said.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let child = Self {
            name,
            process,
            input,
            lines,
        };
        let first = child.hear()?;
        match first.strip_prefix("ready ") {
            Some(what) => {
                let what = what.to_owned();
                Ok((child, what))
            }
            None => Err(child.complaint(&first)),
        }
    }

    fn complaint(&self, line: &str) -> Failure {
        match line.split_once(' ') {
            Some(("missing", what)) => Failure::Missing(what.to_owned()),
            Some(("failed", what)) => Failure::new(&self.name, what),
            _ => Failure::new(&self.name, format!("said `{line}`")),
        }
    }

    fn hear(&self) -> Result<String> {
        self.lines.recv_timeout(PATIENCE).map_err(|error| {
            let what = match error {
                RecvTimeoutError::Timeout => format!("silent for {PATIENCE:?}"),
                RecvTimeoutError::Disconnected => "ended without a word".to_owned(),
            };
            Failure::new(&self.name, what)
        })
    }

    /// Gives an order and returns the answer.
    ///
    /// # Errors
    /// The process has ended, is silent, or complains.
    pub fn order(&mut self, order: &str) -> Result<String> {
        if let Some(input) = &mut self.input {
            let given = writeln!(input, "{order}");
            given.map_err(|error| Failure::new(&self.name, error))?;
        }
        let line = self.hear()?;
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            Ok(line)
        } else {
            Err(self.complaint(&line))
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.input = None;
        // The end of its output; what it still says is of no interest.
        while self.lines.recv_timeout(GRACE).is_ok() {}
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
