//! `roundtrip doctor`.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde::Serialize;

use crate::allocator;
use crate::environment::{Environment, program};
use crate::failure::Failure;
use crate::output::say;

#[derive(Serialize)]
struct Finding {
    what: &'static str,
    found: bool,
    detail: String,
}

pub(crate) fn print(as_json: bool) -> Result<ExitCode, Failure> {
    let environment = Environment::read();
    let findings = findings();
    if as_json {
        let value = serde_json::json!({ "environment": environment, "findings": findings });
        let text = serde_json::to_string_pretty(&value)
            .map_err(|error| Failure::new("print JSON", error))?;
        say!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    say!("roundtrip {}", environment.roundtrip);
    say!("  kernel                  {}", environment.kernel);
    say!(
        "  processor               {} x {}",
        environment.cpus,
        environment.cpu
    );
    if let Some(memory) = environment.memory {
        say!(
            "  memory                  {:.1} GiB",
            memory as f64 / f64::from(1u32 << 30)
        );
    }
    for (name, value) in [
        ("clock source", &environment.clock_source),
        (
            "TCP congestion control",
            &environment.tcp_congestion_control,
        ),
    ] {
        say!("  {name:23} {}", value.as_deref().unwrap_or("unknown"));
    }
    if !environment.optimised {
        say!("  built without optimisation: figures are not to be used; build with --release");
    }
    for finding in findings {
        let mark = if finding.found { "yes" } else { "no " };
        say!("  {mark} {:20} {}", finding.what, finding.detail);
    }
    Ok(ExitCode::SUCCESS)
}

fn findings() -> Vec<Finding> {
    let mut findings = Vec::new();
    for (what, variable, names, version, bring) in [
        (
            "Mosquitto broker",
            "ROUNDTRIP_MOSQUITTO",
            &["mosquitto"][..],
            &["-h"][..],
            "Debian package mosquitto",
        ),
        (
            "Zenoh router",
            "ROUNDTRIP_ZENOHD",
            &["zenohd"],
            &["--version"],
            "cargo install zenohd",
        ),
        (
            "ROS master",
            "ROUNDTRIP_ROSMASTER",
            &["rosmaster", "roscore"],
            &[],
            "Debian package python3-rosmaster",
        ),
    ] {
        let place = program(Some(variable), names);
        let detail = match &place {
            Some(place) if version.is_empty() => place.display().to_string(),
            Some(place) => format!("{} ({})", place.display(), first_line(place, version)),
            None => format!("not found; {bring}, or scripts/install-peers for all of them"),
        };
        findings.push(Finding {
            what,
            found: place.is_some(),
            detail,
        });
    }
    let tun = Path::new("/dev/net/tun").exists();
    findings.push(Finding {
        what: "TUN device",
        found: tun,
        detail: if tun {
            "/dev/net/tun"
        } else {
            "no /dev/net/tun; no link emulation"
        }
        .to_owned(),
    });
    let root = nix::unistd::Uid::effective().is_root();
    let limit = std::fs::read_to_string("/proc/sys/user/max_net_namespaces");
    let allowed = limit.is_ok_and(|text| text.trim().parse::<u64>().is_ok_and(|n| n > 0));
    let ip = program(None, &["ip"]).is_some();
    findings.push(Finding {
        what: "network namespaces",
        found: allowed && ip,
        detail: match (allowed, ip, root) {
            (false, ..) => "the kernel allows none".to_owned(),
            (_, false, _) => "program `ip` not found; Debian package iproute2".to_owned(),
            (.., true) => "as root".to_owned(),
            (.., false) => "not root: by `unshare -Urn`, where the distribution permits".to_owned(),
        },
    });
    let tuned = allocator::tune();
    let settings: Vec<_> = allocator::SETTINGS
        .iter()
        .map(|(name, bytes)| format!("{name}={bytes}"))
        .collect();
    findings.push(Finding {
        what: "allocator settings",
        found: tuned,
        detail: if tuned {
            format!("in force here; for a broker: {}", settings.join(" "))
        } else {
            "only for the GNU C library".to_owned()
        },
    });
    findings
}

/// What the program says of itself first; it may also exit with a failure after that.
fn first_line(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let line = output.ok().and_then(|output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().map(plain)
    });
    line.unwrap_or_else(|| "version unknown".to_owned())
}

/// `text` without the escape sequences that colour it on a terminal.
fn plain(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    plain.extend(pieces.map(|piece| piece.split_once('m').map_or(piece, |(_, rest)| rest)));
    plain
}
