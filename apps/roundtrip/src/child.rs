//! A supervised command of this program, as a child process.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::failure::Failure;
use crate::file;
use crate::supervision::Report;

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    process: tokio::process::Child,
    /// Its end tells the child to stop.
    input: Option<ChildStdin>,
    reports: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Child {
    /// Starts subcommand `command`, called `name`; its log goes to `command.log` in `folder`.
    ///
    /// The transport's URL may hold a password, so it goes by the environment, which only the same
    /// user can read.
    pub(crate) fn start(
        command: &'static str,
        name: &str,
        arguments: &[String],
        transport: &str,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new("find this program's own file", error))?;
        let log = folder.join(format!("{command}.log"));
        // One that is started again goes on in the log of the one before.
        let log_file = File::options().create(true).append(true).open(&log);
        let log_file =
            log_file.map_err(|error| Failure::new(format!("create {}", log.display()), error))?;
        let mut process = Command::new(&program);
        // The run has read its settings and passes them on; none may reach a child twice.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with(file::PREFIX) {
                process.env_remove(variable);
            }
        }
        let mut process = process
            .arg(command)
            .arg("--supervised")
            .args(arguments)
            .env("ROUNDTRIP_TRANSPORT", transport)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::new(format!("start {}", program.display()), error))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::text(format!("{name}: no pipes")));
        };
        let reports = BufReader::new(output).lines();
        Ok(Self {
            name: name.to_owned(),
            process,
            input: Some(input),
            reports,
            log,
        })
    }

    /// The next report; an error once the child has failed or ended. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Report, Failure> {
        let line = self.reports.next_line().await;
        let line = line.map_err(|error| Failure::new(format!("read from {}", self.name), error))?;
        match line.as_deref().map(serde_json::from_str) {
            Some(Ok(Report::Failed { error })) => Err(Failure::text(error)),
            Some(Ok(report)) => Ok(report),
            Some(Err(error)) => Err(Failure::new(format!("understand {}", self.name), error)),
            None => {
                let status = self.process.wait().await;
                let how = status.map_or_else(|error| error.to_string(), describe);
                Err(Failure::text(format!(
                    "{} {how}; its log is {}{}",
                    self.name,
                    self.log.display(),
                    last_line(&self.log)
                )))
            }
        }
    }

    /// Resolves when the child fails or ends although nobody told it to, with what happened.
    /// Cancel-safe.
    pub(crate) async fn early_end(&mut self) -> EarlyEnd {
        loop {
            if let Err(failure) = self.next().await {
                return EarlyEnd::new(&self.name, failure.to_string());
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file that its log goes to.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Its process id; `None` once it has ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Tells it to stop.
    fn ask_to_stop(&mut self) {
        self.input = None;
    }

    /// Kills it, as a crash would.
    pub(crate) async fn kill(mut self) {
        // It fails only if the process has ended by itself.
        let _ = self.process.kill().await;
    }

    /// Tells it to stop and returns its last report. After `patience` it is killed; what it has told
    /// by then counts all the same.
    pub(crate) async fn end(mut self, patience: Duration) -> Option<Report> {
        self.ask_to_stop();
        let mut last = None;
        let rest = async {
            while let Ok(report) = self.next().await {
                last = Some(report);
            }
            // After a failure it is about to end; it may have ended already.
            let _ = self.process.wait().await;
        };
        if tokio::time::timeout(patience, rest).await.is_err() {
            tracing::warn!(child = %self.name, "did not stop in time and is killed");
            // It fails only if the process has ended by itself.
            let _ = self.process.kill().await;
        }
        last
    }
}

/// A child that ended before its time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EarlyEnd {
    /// Its name.
    pub(crate) process: String,
    /// How it ended, and the end of its log.
    pub(crate) how: String,
}

impl EarlyEnd {
    pub(crate) fn new(process: &str, how: String) -> Self {
        Self {
            process: process.to_owned(),
            how,
        }
    }
}

/// How a process ended that was not told to.
fn describe(status: ExitStatus) -> String {
    let Some(number) = status.signal() else {
        return match status.code() {
            Some(code) => format!("ended unexpectedly with exit code {code}"),
            None => "ended unexpectedly".to_owned(),
        };
    };
    let name = Signal::try_from(number).map_or("unknown", Signal::as_str);
    format!("was killed by signal {number} ({name})")
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .map_or(String::new(), |line| format!(", which ends: {line}"))
}
