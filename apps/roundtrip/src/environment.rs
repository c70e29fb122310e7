//! What this machine is, as kept with results and shown by `doctor`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::allocator;

/// What figures depend on, as far as it can be read without rights.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Environment {
    /// Version of this program.
    pub(crate) roundtrip: &'static str,
    /// Kernel name and release.
    pub(crate) kernel: String,
    /// Processor.
    pub(crate) cpu: String,
    /// Processors this process may use.
    pub(crate) cpus: usize,
    /// Memory, in bytes.
    pub(crate) memory: Option<u64>,
    /// Clock source of the kernel.
    pub(crate) clock_source: Option<String>,
    /// TCP congestion control of new sockets.
    pub(crate) tcp_congestion_control: Option<String>,
    /// Allocator settings, applied to all our processes alike.
    pub(crate) allocator: Vec<(&'static str, usize)>,
    /// Whether optimisations were on when this was built.
    pub(crate) optimised: bool,
}

impl Environment {
    pub(crate) fn read() -> Self {
        Self {
            roundtrip: env!("CARGO_PKG_VERSION"),
            kernel: format!(
                "{} {}",
                line("/proc/sys/kernel/ostype").unwrap_or_default(),
                line("/proc/sys/kernel/osrelease").unwrap_or_default()
            ),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory: field("/proc/meminfo", "MemTotal").and_then(|text| {
                let kib: u64 = text.split_whitespace().next()?.parse().ok()?;
                Some(kib * 1024)
            }),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            tcp_congestion_control: line("/proc/sys/net/ipv4/tcp_congestion_control"),
            allocator: allocator::SETTINGS.to_vec(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

fn line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The first program called one of `names` on the search path, or at the place that the variable
/// `variable` names.
pub(crate) fn program(variable: Option<&str>, names: &[&str]) -> Option<PathBuf> {
    if let Some(path) = variable.and_then(std::env::var_os).map(PathBuf::from) {
        return path.is_file().then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    // Debian keeps daemons where an ordinary user's path does not look.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let places = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    places.into_iter().find(|place| Path::new(place).is_file())
}
