//! Fuzzing of every decoder, with the pinned toolchain: libFuzzer needs the compiler's coverage
//! counters and no sanitizer, since the code under test is safe and its allocations are bounded.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::workspace::{self, Workspace};

/// What tells the fuzzer which ways were taken, and what was compared with what.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 --cfg fuzzing";

/// Largest input, in bytes.
const MAX_LEN: usize = 64 << 10;

/// Feeds each target for so many seconds; what is found is a finding. `names` empty: all targets.
///
/// The corpus grows from run to run, in `fuzz/corpus`; an input that fails is kept in
/// `fuzz/artifacts`.
pub(crate) fn run(workspace: &Workspace, seconds: &str, names: &[&str]) -> Result<Vec<String>> {
    let folder = workspace.root.join("fuzz");
    let seconds: u32 = seconds
        .parse()
        .map_err(|error| format!("`{seconds}` is no number of seconds: {error}"))?;
    let known = targets(&folder)?;
    if let Some(name) = names
        .iter()
        .find(|name| !known.iter().any(|it| it == *name))
    {
        return Err(format!("no fuzz target `{name}`; there are {}", known.join(", ")).into());
    }
    let host = host()?;
    // Named, so that the flags are not those of build scripts.
    let flags: Vec<&str> = COVERAGE.split_whitespace().collect();
    done(
        Command::new(workspace::program())
            .args([
                "build",
                "--locked",
                "--release",
                "--bins",
                "--target",
                &host,
            ])
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
            .current_dir(&folder),
    )?;
    done(
        Command::new(workspace::program())
            .args(["run", "--locked", "--example", "seeds", "--", "seeds"])
            .current_dir(&folder),
    )?;
    let programs = target_folder(workspace).join(host).join("release");
    fs::create_dir_all(folder.join("artifacts"))?;
    let mut findings = Vec::new();
    for target in known {
        if !names.is_empty() && !names.contains(&target.as_str()) {
            continue;
        }
        fs::create_dir_all(folder.join("corpus").join(&target))?;
        let log = folder.join("artifacts").join(format!("{target}.log"));
        let status = Command::new(programs.join(&target))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={MAX_LEN}"))
            .args(["-rss_limit_mb=1024", "-timeout=5", "-print_final_stats=1"])
            .arg("-artifact_prefix=artifacts/")
            .arg(format!("corpus/{target}"))
            .arg(format!("seeds/{target}"))
            .current_dir(&folder)
            .stderr(fs::File::create(&log)?)
            .status()?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let inputs = said
            .lines()
            .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
            .map_or("?", str::trim);
        println!("{target}: {inputs} inputs in {seconds} s: {status}");
        if !status.success() {
            findings.push(format!(
                "fuzz target `{target}` failed; the input is in fuzz/artifacts, and in {}:\n{}",
                log.display(),
                last_lines(&said, 30)
            ));
        }
    }
    Ok(findings)
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The names of all targets, sorted.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join("targets"))? {
        if let Some(name) = entry?.path().file_stem() {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Where a workspace of its own puts what it builds.
fn target_folder(workspace: &Workspace) -> std::path::PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace.root.join(folder),
        None => workspace.root.join("fuzz/target"),
    }
}

/// The host, as the compiler names it.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .ok_or("rustc does not say what its host is")?
        .to_owned())
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}").into())
    }
}
