//! What runs between the ends.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use transport_api::TransportConfig;

use crate::contract;
use crate::end::Ready;
use crate::failure::{Failure, Result};

/// How often a program that does not listen yet is tried.
const POLL: Duration = Duration::from_millis(20);

/// How long a program may take until it listens; a watchdog for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that is killed when this is dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    // Removed after the program has ended.
    _folder: tempfile::TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// mosquitto on a free port, without limits that a cloud exceeds; tells its URL twice, once for
    /// each end.
    ///
    /// # Errors
    /// It is not installed or does not start.
    pub fn mosquitto(ready: Ready<'_>) -> Result<Self> {
        let program = find("mosquitto")?;
        let at = free()?;
        let settings = format!(
            "listener {} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\n\
             max_packet_size 16842752\nconnection_messages false\nlog_type error\nlog_type warning\n",
            at.port()
        );
        let (folder, file) = settings_file(&settings)?;
        let mut command = Command::new(program);
        command.arg("-c").arg(file);
        let running = Self::start(command, folder, at)?;
        ready(&format!("mqtt://{at} mqtt://{at}"));
        Ok(running)
    }

    /// The Zenoh router on a free port with the queues of `transport-zenoh`; tells its URL twice.
    ///
    /// # Errors
    /// It is not installed or does not start.
    pub fn zenohd(ready: Ready<'_>) -> Result<Self> {
        let program = find("zenohd")?;
        let at = free()?;
        let settings = "{ transport: { link: { tx: { queue: { size: { data_high: 16 } } }, \
                        rx: { buffer_size: 4194304 } } } }";
        let (folder, file) = settings_file(settings)?;
        let mut command = Command::new(program);
        command.arg("-c").arg(file);
        command.args(["--listen", &format!("tcp/{at}")]);
        command.args(["--no-multicast-scouting", "--no-timestamp"]);
        let running = Self::start(command, folder, at)?;
        ready(&format!(
            "zenoh://{at}?mode=client zenoh://{at}?mode=client"
        ));
        Ok(running)
    }

    /// Starts a program and waits until it listens.
    fn start(mut command: Command, folder: tempfile::TempDir, at: SocketAddr) -> Result<Self> {
        let name = command.get_program().display().to_string();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| Failure::new(&name, error))?;
        let mut program = Self {
            child,
            _folder: folder,
        };
        let begun = Instant::now();
        while TcpStream::connect(at).is_err() {
            if let Ok(Some(status)) = program.child.try_wait() {
                return Err(Failure::new(&name, format!("ended with {status}")));
            }
            if begun.elapsed() > PATIENCE {
                return Err(Failure::new(
                    &name,
                    format!("does not listen on {at} after {PATIENCE:?}"),
                ));
            }
            thread::sleep(POLL);
        }
        Ok(program)
    }
}

/// Arranges a meeting by `url`, tells the addresses of both ends, and keeps what runs for it until
/// `stop` returns.
///
/// # Errors
/// What the transport answers.
pub fn meeting(url: &str, ready: Ready<'_>, stop: impl FnOnce()) -> Result<()> {
    let runtime = contract::runtime()?;
    let config = TransportConfig::parse(url)?;
    let registry = contract::registry()?;
    let meeting = runtime.block_on(registry.meet(&config))?;
    ready(&format!(
        "{} {}",
        meeting.first.expose(),
        meeting.second.expose()
    ));
    stop();
    if let Some(host) = meeting.host {
        runtime.block_on(host.stop());
    }
    Ok(())
}

fn settings_file(settings: &str) -> Result<(tempfile::TempDir, PathBuf)> {
    let written = tempfile::tempdir().and_then(|folder| {
        let file = folder.path().join("settings.json5");
        fs::write(&file, settings)?;
        Ok((folder, file))
    });
    written.map_err(|error| Failure::new("write settings", error))
}

/// An address that was free a moment ago.
fn free() -> Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| Failure::new("find a free port", error))
}

/// Finds a program in `PATH` or in `/usr/sbin`.
fn find(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Failure::Missing(format!(
                "{name} is not in PATH; install it with scripts/install-peers"
            ))
        })
}
