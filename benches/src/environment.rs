//! The machine, as far as it decides about the figures.

use std::fs;
use std::thread;

use crate::allocator;

/// Load per core above which figures are not worth much.
const BUSY: f64 = 0.3;

/// One line per fact, and the allocator settings that all processes have.
pub fn lines() -> Vec<String> {
    let cores = cores();
    let mut lines = vec![
        format!("kernel {}", read("/proc/sys/kernel/osrelease")),
        format!("{cores} cores, {}", processor()),
        format!(
            "TCP congestion control {}, nodelay on every socket",
            read("/proc/sys/net/ipv4/tcp_congestion_control")
        ),
    ];
    let governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    if fs::exists(governor).unwrap_or(false) {
        lines.push(format!("frequency governor {}", read(governor)));
    }
    let allocator = allocator::SETTINGS.map(|(key, value)| format!("{key}={value}"));
    lines.push(format!("all processes: {}", allocator.join(" ")));
    lines
}

/// A warning if other programs use the machine.
pub fn busy() -> Option<String> {
    let load = read("/proc/loadavg");
    let now: f64 = load.split(' ').next()?.parse().ok()?;
    let cores = cores();
    (now > BUSY * cores as f64).then(|| {
        format!(
            "WARNING: load {now} on {cores} cores before the first measurement; repeat on a quiet \
             machine"
        )
    })
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn read(file: &str) -> String {
    fs::read_to_string(file).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn processor() -> String {
    let list = read("/proc/cpuinfo");
    let model = list
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or("model unknown".to_owned(), |(_, name)| {
        name.trim().to_owned()
    })
}
