//! Brokers, routers and masters that run as child processes.

use std::env;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::unavailable::Unavailable;

/// Control over a broker, router or master.
#[async_trait]
pub trait ServerControl: Send + Sync {
    /// Ends it without notice and waits until it is gone.
    async fn kill(&self);

    /// Starts it again on the same address and waits until it accepts connections.
    async fn restart(&self);
}

/// How often a program that does not listen yet is tried.
const POLL: Duration = Duration::from_millis(20);

/// How long a program may take until it listens; a watchdog for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many ports are tried: another process may take the one that was free a moment ago.
const ATTEMPTS: usize = 5;

/// Finds a program: the path in the environment variable `variable`, or `name` in `PATH` or in
/// `/usr/sbin`.
///
/// # Errors
/// [`Unavailable`] that names both and `hint`, the way to install it.
pub fn find(name: &str, variable: &str, hint: &str) -> Result<PathBuf, Unavailable> {
    if let Some(path) = env::var_os(variable).map(PathBuf::from) {
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Unavailable::new(format!(
                "{variable} is {}, which is not a file",
                path.display()
            )))
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Unavailable::new(format!(
                "{name} not found in PATH or {variable}; install it with {hint}"
            ))
        })
}

/// A port of 127.0.0.1 that was free a moment ago.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("a free port on 127.0.0.1")
        .port()
}

/// A program that listens on a port of 127.0.0.1. Killed when dropped.
pub struct Server {
    port: u16,
    command: Box<dyn Fn(u16) -> Command + Send + Sync>,
    child: Mutex<Child>,
}

impl Server {
    /// Runs `command` with a free port and waits until it accepts connections. Its output is shown
    /// if `CONFORMANCE_SERVER_OUTPUT` is set.
    ///
    /// # Errors
    /// [`Unavailable`] naming the command if it cannot be run, ends, or never listens.
    pub async fn start(
        command: impl Fn(u16) -> Command + Send + Sync + 'static,
    ) -> Result<Self, Unavailable> {
        let mut attempt = 1;
        loop {
            let port = free_port();
            match spawn(&command, port).await {
                Ok(child) => {
                    return Ok(Self {
                        port,
                        command: Box::new(command),
                        child: Mutex::new(child),
                    });
                }
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Ends it and waits until it is gone.
    pub async fn stop(self) {
        self.kill().await;
    }
}

#[async_trait]
impl ServerControl for Server {
    async fn kill(&self) {
        // Only fails if it has ended already.
        let _ = self.child.lock().await.kill().await;
    }

    async fn restart(&self) {
        let child = spawn(&self.command, self.port).await;
        *self.child.lock().await = child.expect("what ran before runs again");
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

async fn spawn(
    command: &(impl Fn(u16) -> Command + ?Sized),
    port: u16,
) -> Result<Child, Unavailable> {
    let output = || match env::var_os("CONFORMANCE_SERVER_OUTPUT") {
        Some(_) => Stdio::inherit(),
        None => Stdio::null(),
    };
    let mut command = command(port);
    command
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output())
        .kill_on_drop(true);
    let shown = format!("{:?}", command.as_std());
    let mut child = command
        .spawn()
        .map_err(|error| Unavailable::new(format!("{shown}: {error}")))?;
    let listening = async {
        loop {
            let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
            // Asked after the connection: it may have been another program that took the port.
            if let Ok(Some(status)) = child.try_wait() {
                return Err(Unavailable::new(format!(
                    "{shown} ended with {status}; see its output with CONFORMANCE_SERVER_OUTPUT=1"
                )));
            }
            if connected.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(PATIENCE, listening).await {
        Ok(Ok(())) => Ok(child),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Unavailable::new(format!(
            "{shown} does not listen on port {port} after {} s",
            PATIENCE.as_secs()
        ))),
    }
}
