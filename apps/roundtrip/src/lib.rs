//! The `roundtrip` command line as a library over a [`Registry`].
//!
//! A program with a transport of its own gets every subcommand with it:
//!
//! ```no_run
//! use transport_api::{Registry, local};
//!
//! fn main() -> std::process::ExitCode {
//!     let mut registry = Registry::default();
//!     if let Err(error) = registry.register(local::Factory::default()) {
//!         eprintln!("{error}");
//!         return std::process::ExitCode::FAILURE;
//!     }
//!     roundtrip::main_with(registry)
//! }
//! ```

mod allocator;
mod campaign;
mod child;
mod cli;
mod doctor;
mod drill;
mod environment;
mod eval;
mod failure;
mod file;
mod fleet;
mod lists;
mod load;
mod log;
mod operation;
mod outage;
mod output;
mod phase;
mod record;
mod resources;
mod results;
mod ros;
mod screen;
mod sensor;
mod sides;
mod signal;
mod supervision;
mod table;
mod transports;

use std::process::ExitCode;

use clap::FromArgMatches;
use transport_api::Registry;

use cli::{Cli, Command};
use failure::Failure;
use output::note;

/// Runs the command line of this process over `registry` and returns its exit code: 0 for success, 1
/// for a failure, 2 for a wrong command line or settings file.
pub fn main_with(registry: Registry) -> ExitCode {
    allocator::tune();
    match run(&registry) {
        Ok(_) if output::has_failed() => ExitCode::FAILURE,
        Ok(code) => code,
        Err(failure) => {
            note!("error: {failure}");
            failure.exit_code()
        }
    }
}

fn run(registry: &Registry) -> Result<ExitCode, Failure> {
    let command = file::configured_command(std::env::args_os().collect())?;
    let cli = match command
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors to clap; they go to standard output.
            match error.print() {
                // A reader that has seen enough and gone away, such as `head`, is no error.
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    return Err(Failure::new("print", error));
                }
                _ => {}
            }
            if let Some(variable) = file::blamed_variable(&error) {
                note!("\nthe value comes from the environment variable {variable}");
            }
            return Ok(if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            });
        }
    };
    match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Transports(args) => transports::print(registry, args.json),
        Command::Doctor(args) => doctor::print(args.json),
        Command::Sensor(args) => sensor::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Run(args) => on_runtime(campaign::run(registry, args)),
        Command::Vehicle(args) => on_runtime(sides::vehicle(registry, args)),
        Command::Edge(args) => on_runtime(sides::edge(registry, args)),
        Command::Drill(args) => on_runtime(drill::run(registry, args)),
        Command::Host(args) => on_runtime(sides::host(registry, args)),
    }
}

/// Two workers: every transport works on that, and so do machines with two cores.
fn on_runtime(task: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new("start the async runtime", error))?;
    let result = runtime.block_on(task);
    // A library's blocking call must not hold up the end of the process.
    runtime.shutdown_background();
    result
}
