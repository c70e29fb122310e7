//! Everything that must hold before a change is merged, cheap steps first.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::workspace::{self, Workspace};

/// One command. Steps of one name belong together.
struct Step {
    name: &'static str,
    program: Program,
    /// Separated by spaces.
    arguments: &'static str,
    /// Where it is run, seen from the root.
    folder: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

enum Program {
    Cargo,
    /// An example of this workspace, built before. `cargo run` would compile its crate alone, and
    /// with it once more everything whose features differ from those of the whole workspace.
    Example(&'static str),
}

/// Stands for an empty folder that lasts as long as the run.
const SCRATCH: &str = "SCRATCH";

/// All steps. Those that share what they compile stand next to each other. The tests are last, so
/// that their result is the last thing to be read.
const STEPS: &[Step] = &[
    cargo("fmt", "fmt --all --check"),
    cargo("arch", "xtask arch"),
    cargo("features", "xtask features"),
    cargo("docs", "xtask docs"),
    cargo(
        "clippy",
        "clippy --locked --workspace --all-targets -- -D warnings",
    ),
    rustdoc("doc --locked --workspace --no-deps"),
    // The product without any transport and with each alone.
    single("clippy --locked -p roundtrip --no-default-features -- -D warnings"),
    single("clippy --locked -p roundtrip --no-default-features --features mqtt -- -D warnings"),
    single(
        "clippy --locked -p roundtrip --no-default-features --features rosmaster -- -D warnings",
    ),
    single("clippy --locked -p roundtrip --no-default-features --features zenoh -- -D warnings"),
    template("fmt --check"),
    template("clippy --locked --all-targets -- -D warnings"),
    template("test"),
    // The whole command line over a transport of somebody else.
    template("build --features cli --example roundtrip"),
    Step {
        folder: "fuzz",
        ..cargo("fuzz", "fmt --check")
    },
    cargo("fuzz", "xtask fuzz 10"),
    // The main job, short: it must end by itself and say that it went well.
    cargo(
        "run",
        "run --locked --release -- run --samples 20 --results SCRATCH",
    ),
    cargo("examples", "build --locked --workspace --examples"),
    example("local"),
    example("mqtt_ping"),
    example("rosmaster_ping"),
    example("zenoh_ping"),
    // Without `--bench` among its arguments, criterion runs each benchmark once, as a test.
    cargo("benches", "test --locked --workspace --bench *"),
    cargo("test", "test --locked --workspace --no-fail-fast"),
];

const fn cargo(name: &'static str, arguments: &'static str) -> Step {
    Step {
        name,
        program: Program::Cargo,
        arguments,
        folder: "",
        environment: &[],
    }
}

const fn rustdoc(arguments: &'static str) -> Step {
    Step {
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
        ..cargo("rustdoc", arguments)
    }
}

const fn single(arguments: &'static str) -> Step {
    cargo("single", arguments)
}

const fn template(arguments: &'static str) -> Step {
    Step {
        folder: "transport-api/template",
        ..cargo("template", arguments)
    }
}

const fn example(name: &'static str) -> Step {
    Step {
        program: Program::Example(name),
        ..cargo("examples", "")
    }
}

/// Runs the steps of these names, or all, in the order of the table; stops at the first that fails.
pub(crate) fn run(names: &[&str]) -> ExitCode {
    let steps = match choose(names) {
        Ok(steps) => steps,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let outcome = Place::find()
        .map_err(|error| error.to_string())
        .and_then(|place| {
            let outcome = run_all(&steps, &place);
            // It exists only if a step wrote to it.
            let _ = fs::remove_dir_all(&place.scratch);
            outcome
        });
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

fn run_all(steps: &[&Step], place: &Place) -> Result<(), String> {
    let Some((last, earlier)) = steps.split_last() else {
        return Ok(());
    };
    let mut durations = Vec::new();
    for step in earlier {
        let start = Instant::now();
        step.run(place)?;
        let seconds = start.elapsed().as_secs_f64();
        println!("== {seconds:.1} s");
        durations.push((seconds, step.line(place)));
    }
    if !durations.is_empty() {
        println!("\n== so far");
        for (seconds, line) in durations {
            println!("{seconds:>8.1} s  {line}");
        }
    }
    // Nothing of ours follows: what the last step says at its end is the result.
    last.run(place)
}

/// The folders of a run.
struct Place {
    root: PathBuf,
    /// Where Cargo puts what it builds.
    target: PathBuf,
    /// What [`SCRATCH`] stands for.
    scratch: PathBuf,
}

impl Place {
    fn find() -> crate::Result<Self> {
        let workspace = Workspace::load()?;
        Ok(Self {
            root: workspace.root,
            target: workspace.target,
            scratch: std::env::temp_dir().join(format!("roundtrip-ci-{}", std::process::id())),
        })
    }

    fn example(&self, name: &str) -> PathBuf {
        self.target.join("debug/examples").join(name)
    }
}

impl Step {
    fn run(&self, place: &Place) -> Result<(), String> {
        let line = self.line(place);
        println!("\n== {}: {line}", self.name);
        let program: OsString = match self.program {
            Program::Cargo => workspace::program(),
            Program::Example(name) => place.example(name).into(),
        };
        let status = Command::new(program)
            .args(self.arguments(place))
            .envs(self.environment.iter().copied())
            .current_dir(place.root.join(self.folder))
            .stdin(Stdio::null())
            .status()
            .map_err(|error| format!("cannot run `{line}`: {error}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("step `{}` failed ({status}): {line}", self.name))
        }
    }

    fn arguments(&self, place: &Place) -> impl Iterator<Item = Cow<'static, OsStr>> {
        self.arguments
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(|word| match word {
                SCRATCH => Cow::Owned(place.scratch.as_os_str().to_owned()),
                word => Cow::Borrowed(OsStr::new(word)),
            })
    }

    /// The command as one would type it at the root.
    fn line(&self, place: &Place) -> String {
        let mut words = Vec::new();
        if !self.folder.is_empty() {
            words.push(format!("cd {} &&", self.folder));
        }
        words.extend(
            self.environment
                .iter()
                .map(|(key, value)| format!("{key}='{value}'")),
        );
        words.push(match self.program {
            Program::Cargo => "cargo".to_owned(),
            Program::Example(name) => place.example(name).display().to_string(),
        });
        words.extend(
            self.arguments(place)
                .map(|word| match &*word.to_string_lossy() {
                    "*" => "'*'".to_owned(),
                    word => word.to_owned(),
                }),
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
        let place = Place {
            root: "/r".into(),
            target: "/t".into(),
            scratch: "/s".into(),
        };
        let lines: Vec<String> = STEPS.iter().map(|step| step.line(&place)).collect();
        for line in [
            "RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps",
            "cargo run --locked --release -- run --samples 20 --results /s",
            "cd transport-api/template && cargo fmt --check",
            "cargo test --locked --workspace --bench '*'",
            "/t/debug/examples/local",
        ] {
            assert!(
                lines.iter().any(|known| known == line),
                "{line} of {lines:#?}"
            );
        }
    }
}
