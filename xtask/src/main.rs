//! The checks of this workspace: `cargo xtask arch | features | docs | fuzz [SECONDS [TARGET…]] |
//! ci [STEP…]`.
//!
//! Each check prints what it found, one line per finding, and fails if there was any. `ci` runs all
//! of them and everything else that must hold before a change is merged.

mod arch;
mod ci;
mod dependencies;
mod features;
mod fuzz;
mod licence;
mod links;
mod promises;
mod source;
mod workspace;

use std::error::Error;
use std::process::ExitCode;

use workspace::Workspace;

/// Why a check could not be carried out; what it finds is not an error but a `Vec<String>`.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  arch        the dependency arrows between the crates, and the licences of what they use
  features    each transport's feature brings its own libraries and no other's
  docs        links, test names and dependencies named in the documents exist
  fuzz [SECONDS [TARGET…]]
              feeds every decoder, or those named, so long (60) with what the fuzzer finds
  ci [STEP…]  everything, cheap steps first; with names, only those steps
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["arch"] => Workspace::load().map(|workspace| {
            let mut findings = arch::check(&workspace);
            findings.extend(licence::check(&workspace));
            findings
        }),
        ["features"] => Workspace::load().and_then(|workspace| features::check(&workspace)),
        ["docs"] => Workspace::load().and_then(|workspace| {
            let papers = source::read(&workspace.root, "md")?;
            let code = source::read(&workspace.root, "rs")?;
            let mut findings = links::check(&workspace.root, &papers);
            findings.extend(promises::check(&papers, &code));
            let manifest = std::fs::read_to_string(workspace.root.join("Cargo.toml"))?;
            findings.extend(dependencies::check(&workspace, &manifest, &papers));
            Ok(findings)
        }),
        ["fuzz"] => Workspace::load().and_then(|workspace| fuzz::run(&workspace, "60", &[])),
        ["fuzz", seconds, targets @ ..] => {
            Workspace::load().and_then(|workspace| fuzz::run(&workspace, seconds, targets))
        }
        ["ci", steps @ ..] => return ci::run(steps),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                eprintln!("error: {finding}");
            }
            eprintln!(
                "{} finding(s) in `cargo xtask {}`",
                findings.len(),
                arguments[0]
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: cargo xtask {}: {error}", arguments[0]);
            ExitCode::FAILURE
        }
    }
}
