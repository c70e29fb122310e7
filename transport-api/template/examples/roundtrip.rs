//! The whole `roundtrip` command line with this transport in it:
//! `cargo run --features cli --example roundtrip -- run --transport tcp:embedded`.

use std::process::ExitCode;

use transport_api::{Registry, local};

fn main() -> ExitCode {
    let mut registry = Registry::default();
    let registered = registry
        .register(local::Factory::default())
        .and_then(|registry| registry.register(transport_template::Factory));
    if let Err(error) = registered {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    roundtrip::main_with(registry)
}
