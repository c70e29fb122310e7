//! Ends in C and C++, over the libraries that a protocol has in those languages: compiled from
//! `benches/peers` where these are installed, and talked to like `bench-peer`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// A program and how it is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Native {
    /// The program's name, which is that of the library.
    name: &'static str,
    source: &'static str,
    compiler: &'static str,
    libraries: &'static [&'static str],
}

/// The C library of MQTT: protocol version 5, QoS 0, one connection for publishing and one for
/// receiving, each with a thread of the library.
pub const LIBMOSQUITTO: Native = Native {
    name: "libmosquitto",
    source: "libmosquitto.c",
    compiler: "cc",
    libraries: &["mosquitto"],
};

/// The C++ library of ROS 1, a node of the master in `ROS_MASTER_URI`.
pub const ROSCPP: Native = Native {
    name: "roscpp",
    source: "roscpp.cpp",
    compiler: "c++",
    libraries: &[
        "roscpp",
        "rosconsole",
        "roscpp_serialization",
        "rostime",
        "boost_thread",
    ],
};

impl Native {
    /// Compiles the program and puts it beside `peer`, the program `bench-peer`.
    ///
    /// # Errors
    /// Compiler or library are not installed, or the program does not compile.
    pub fn compile(&self, peer: &OsStr) -> Result<()> {
        let source = Path::new(SOURCES).join(self.source);
        // Of its own source a compiler can miss nothing but what the source includes.
        let looked = run(Command::new(self.compiler).arg("-E").arg(&source));
        looked.map_err(|why| {
            Failure::Missing(format!(
                "{} cannot be compiled against ({why}); install it with scripts/install-peers",
                self.name
            ))
        })?;
        let compiled = run(Command::new(self.compiler)
            .args(["-O2", "-pthread", "-o"])
            .arg(self.beside(Path::new(peer)))
            .arg(&source)
            .args(self.libraries.iter().map(|library| format!("-l{library}"))));
        compiled.map_err(|why| Failure::new(self.source, why))
    }

    /// Makes this process, a `bench-peer`, the program, which keeps its core and environment.
    /// `arguments` are `ask` or `echo`, the address of the server, and the topics of requests and
    /// answers. It only returns if that fails.
    pub fn become_it(&self, arguments: &[&str]) -> Failure {
        let error = match std::env::current_exe() {
            Ok(peer) => Command::new(self.beside(&peer)).args(arguments).exec(),
            Err(error) => error,
        };
        Failure::new(self.name, error)
    }

    fn beside(&self, peer: &Path) -> PathBuf {
        peer.with_file_name(format!("bench-{}", self.name))
    }
}

/// Runs a compiler to its end; says what it complained about first.
fn run(command: &mut Command) -> std::result::Result<(), String> {
    let compiler = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{compiler} is not in PATH"),
        _ => format!("{compiler}: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let complaint = said.lines().find(|line| line.contains("error"));
    Err(complaint.unwrap_or("it gives no reason").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_is_missing_and_what_does_not_compile_is_broken() {
        let folder = tempfile::tempdir().unwrap();
        let peer = folder.path().join("bench-peer");
        let compile = |compiler, text: &str| {
            let source = folder.path().join("end.c");
            std::fs::write(&source, text).unwrap();
            let native = Native {
                name: "end",
                // An absolute path replaces the folder it is joined to.
                source: source.to_str().unwrap().to_owned().leak(),
                compiler,
                libraries: &[],
            };
            native.compile(peer.as_os_str())
        };
        let missing = |outcome| match outcome {
            Err(Failure::Missing(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(missing(compile("no-such-compiler", "")).contains("no-such-compiler"));
        let text = missing(compile("cc", "#include <no_such_library.h>\n"));
        assert!(
            text.contains("no_such_library.h") && text.contains("install-peers"),
            "{text}"
        );
        assert!(matches!(
            compile("cc", "int main(void) { return nothing; }\n"),
            Err(Failure::Broken(_))
        ));
        compile("cc", "int main(void) { return 0; }\n").unwrap();
        assert!(folder.path().join("bench-end").exists());
    }
}
