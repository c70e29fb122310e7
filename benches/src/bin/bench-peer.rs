//! One process of a measurement: an end, or what runs between two ends. Started by the bench.

use std::process::ExitCode;

fn main() -> ExitCode {
    benches::part::main()
}
