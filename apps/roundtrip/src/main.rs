//! The `roundtrip` command with the transports of this workspace.

fn main() -> std::process::ExitCode {
    roundtrip::main_with(backends::builtin())
}
