//! `roundtrip doctor`.

use std::fs::File;
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
            Some(place) => format!("{} ({})", place.display(), version_of(place, version)),
            None => format!("not found; {bring}, or scripts/install-peers for all of them"),
        };
        findings.push(Finding {
            what,
            found: place.is_some(),
            detail,
        });
    }
    let tun = File::options().read(true).write(true).open(TUN);
    findings.push(Finding {
        what: "TUN device",
        found: tun.is_ok(),
        detail: match tun {
            Ok(_) => format!("{TUN} opened; making an interface was not tried"),
            Err(error) => format!("cannot open {TUN}: {error}"),
        },
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
            (.., true) => "root, and the kernel allows some; making one was not tried".to_owned(),
            (.., false) => {
                "not root: by `unshare -Urn`, where the distribution permits; not tried".to_owned()
            }
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

/// What can make links of a chosen quality.
const TUN: &str = "/dev/net/tun";

/// The version that the program tells; it may log before that and exit with a failure afterwards.
fn version_of(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = text.ok().and_then(|text| version_in(&text));
    version.unwrap_or_else(|| "version unknown".to_owned())
}

/// The first word of digits with points between them, such as `2.0.11`.
fn version_in(text: &str) -> Option<String> {
    let numbers = |word: &&str| {
        let parts: Vec<_> = word.split('.').collect();
        let digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        parts.len() > 1 && parts.iter().all(digits)
    };
    let words = text.split_whitespace();
    let mut words = words.map(|word| word.trim_start_matches('v'));
    words.find(numbers).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_behind_a_log_line() {
        let coloured =
            "\u{1b}[2m2026-01-02T03:04:05.678Z\u{1b}[0m INFO main r: router v1.10.2 built";
        for (text, version) in [
            ("mosquitto version 2.0.11\n", Some("2.0.11")),
            (coloured, Some("1.10.2")),
            ("usage: program. -h", None),
        ] {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }
}
