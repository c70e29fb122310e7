//! Everything that must hold before a change is merged, cheap steps first.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::workspace;

/// One Cargo command. Steps of one name are run together.
struct Step {
    name: &'static str,
    /// Where it is run, seen from the root.
    folder: &'static str,
    environment: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
}

/// Stands for an empty folder that lasts as long as the run.
const SCRATCH: &str = "SCRATCH";

const fn step(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step {
        name,
        folder: "",
        environment: &[],
        arguments,
    }
}

const fn template(arguments: &'static [&'static str]) -> Step {
    Step {
        folder: "transport-api/template",
        ..step("template", arguments)
    }
}

/// All steps. Those that share what they compile stand next to each other. The tests are last, so
/// that their result is the last thing to be read.
const STEPS: &[Step] = &[
    step("fmt", &["fmt", "--all", "--check"]),
    step("arch", &["xtask", "arch"]),
    step("features", &["xtask", "features"]),
    step("docs", &["xtask", "docs"]),
    step(
        "clippy",
        &[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    Step {
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
        ..step("rustdoc", &["doc", "--locked", "--workspace", "--no-deps"])
    },
    step("clippy-features", CLIPPY_NONE),
    step("clippy-features", CLIPPY_MQTT),
    step("clippy-features", CLIPPY_ROSMASTER),
    step("clippy-features", CLIPPY_ZENOH),
    template(&["fmt", "--check"]),
    template(&["clippy", "--all-targets", "--", "-D", "warnings"]),
    template(&["test"]),
    step("run", RUN),
    step(
        "examples",
        &[
            "run",
            "--locked",
            "-p",
            "transport-api",
            "--example",
            "local",
        ],
    ),
    step(
        "examples",
        &[
            "run",
            "--locked",
            "-p",
            "transport-mqtt",
            "--example",
            "ping",
        ],
    ),
    step(
        "examples",
        &[
            "run",
            "--locked",
            "-p",
            "transport-rosmaster",
            "--example",
            "ping",
        ],
    ),
    step(
        "examples",
        &[
            "run",
            "--locked",
            "-p",
            "transport-zenoh",
            "--example",
            "ping",
        ],
    ),
    // Without `--bench`, criterion runs each benchmark once, as a test.
    step(
        "benches",
        &["test", "--locked", "--workspace", "--bench", "*"],
    ),
    step(
        "test",
        &["test", "--locked", "--workspace", "--no-fail-fast"],
    ),
];

const CLIPPY_NONE: &[&str] = &clippy("");
const CLIPPY_MQTT: &[&str] = &clippy("mqtt");
const CLIPPY_ROSMASTER: &[&str] = &clippy("rosmaster");
const CLIPPY_ZENOH: &[&str] = &clippy("zenoh");

/// The product with one transport, or with none.
const fn clippy(feature: &'static str) -> [&'static str; 10] {
    [
        "clippy",
        "--locked",
        "-p",
        "roundtrip",
        "--no-default-features",
        "--features",
        feature,
        "--",
        "-D",
        "warnings",
    ]
}

/// The main job, short: it must end by itself and say that it went well.
const RUN: &[&str] = &[
    "run",
    "--locked",
    "--release",
    "--",
    "run",
    "--samples",
    "20",
    "--results",
    SCRATCH,
];

/// Runs the steps of these names, or all, in the order of the table; stops at the first that fails.
pub(crate) fn run(names: &[&str]) -> ExitCode {
    let steps = match choose(names) {
        Ok(steps) => steps,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let scratch = std::env::temp_dir().join(format!("roundtrip-ci-{}", std::process::id()));
    let outcome = run_all(&steps, &scratch);
    // It exists only if a step wrote to it.
    let _ = fs::remove_dir_all(&scratch);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn choose(names: &[&str]) -> Result<Vec<&'static Step>, String> {
    for name in names {
        if STEPS.iter().all(|step| step.name != *name) {
            let mut known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
            known.dedup();
            return Err(format!("no step `{name}`; there are {}", known.join(", ")));
        }
    }
    let chosen = |step: &&Step| names.is_empty() || names.contains(&step.name);
    Ok(STEPS.iter().filter(chosen).collect())
}

fn run_all(steps: &[&Step], scratch: &Path) -> Result<(), String> {
    let Some((last, earlier)) = steps.split_last() else {
        return Ok(());
    };
    let mut durations = Vec::new();
    for step in earlier {
        let start = Instant::now();
        step.run(scratch)?;
        let seconds = start.elapsed().as_secs_f64();
        println!("== {seconds:.1} s");
        durations.push((seconds, step.line(scratch)));
    }
    if !durations.is_empty() {
        println!("\n== so far");
        for (seconds, line) in durations {
            println!("{seconds:>8.1} s  {line}");
        }
    }
    // Nothing of ours follows: what the last step says at its end is the result.
    last.run(scratch)
}

impl Step {
    fn run(&self, scratch: &Path) -> Result<(), String> {
        let line = self.line(scratch);
        println!("\n== {}: {line}", self.name);
        let status = Command::new(workspace::program())
            .args(self.arguments(scratch))
            .envs(self.environment.iter().copied())
            .current_dir(workspace::root().join(self.folder))
            .stdin(Stdio::null())
            .status()
            .map_err(|error| format!("cannot run `{line}`: {error}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("step `{}` failed ({status}): {line}", self.name))
        }
    }

    fn arguments(&self, scratch: &Path) -> impl Iterator<Item = Cow<'static, OsStr>> {
        self.arguments.iter().map(|&argument| match argument {
            SCRATCH => Cow::Owned(scratch.as_os_str().to_owned()),
            argument => Cow::Borrowed(OsStr::new(argument)),
        })
    }

    /// The command as one would type it at the root.
    fn line(&self, scratch: &Path) -> String {
        let mut words = Vec::new();
        if !self.folder.is_empty() {
            words.push(format!("cd {} &&", self.folder));
        }
        let quoted = |word: &str| match word.contains([' ', '*']) || word.is_empty() {
            true => format!("'{word}'"),
            false => word.to_owned(),
        };
        words.extend(
            self.environment
                .iter()
                .map(|(k, v)| format!("{k}={}", quoted(v))),
        );
        words.push("cargo".to_owned());
        words.extend(
            self.arguments(scratch)
                .map(|word| quoted(&word.to_string_lossy())),
        );
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name_and_unknown_names_are_refused() {
        assert_eq!(choose(&[]).unwrap().len(), STEPS.len());
        let chosen = choose(&["docs", "fmt"]).unwrap();
        assert_eq!(
            chosen.iter().map(|s| s.name).collect::<Vec<_>>(),
            ["fmt", "docs"]
        );
        let error = choose(&["fmt", "lint"]).err().unwrap();
        assert!(
            error.contains("`lint`") && error.contains("clippy"),
            "{error}"
        );
    }

    #[test]
    fn the_tests_come_last() {
        assert_eq!(STEPS.last().unwrap().name, "test");
    }

    #[test]
    fn lines_can_be_typed() {
        let rustdoc = STEPS.iter().find(|step| step.name == "rustdoc").unwrap();
        assert_eq!(
            rustdoc.line(Path::new("/tmp/x")),
            "RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps"
        );
        let run = STEPS.iter().find(|step| step.name == "run").unwrap();
        assert!(run.line(Path::new("/tmp/x")).ends_with("/tmp/x"));
        let template = STEPS.iter().find(|step| step.name == "template").unwrap();
        assert!(
            template
                .line(Path::new("/"))
                .starts_with("cd transport-api/template && cargo fmt")
        );
    }
}
