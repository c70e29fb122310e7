//! What a `bench-peer` process does: `serve <server>`, `echo <path> <address>` or
//! `ask <path> <address>`.
//!
//! It first says `ready …`, `missing …` or `failed …` in one line. Then an asking end takes orders
//! from its standard input, and every process ends when its standard input does.

use std::collections::HashMap;
use std::env;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::thread;

use bytes::Bytes;

use crate::bare;
use crate::contract;
use crate::cores::{self, Host};
use crate::end::Asker;
use crate::failure::{Failure, Result};
use crate::path::{self, Over, Path, Server};
use crate::payload::payload;
use crate::server::{Program, meeting};
use crate::tcp;

/// Address of a path without a server before its answering end listens.
pub const NOWHERE: &str = "-";

/// The name of a server on the command line.
pub fn server_name(server: Server) -> Option<&'static str> {
    match server {
        Server::Nothing => None,
        Server::Relay => Some("relay"),
        Server::Mosquitto => Some("mosquitto"),
        Server::Zenohd => Some("zenohd"),
        Server::Meeting(url) => Some(url),
    }
}

/// Does what the arguments say.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["serve", server] => serve(server),
        ["echo", name, at] => on_path(name, |path| echo(path, at)),
        ["ask", name, at] => on_path(name, |path| ask(path, at)),
        _ => Err(Failure::Broken(
            "this program is a part of `cargo bench -p benches` and is started by it".to_owned(),
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let word = match failure {
                Failure::Missing(_) => "missing",
                Failure::Broken(_) => "failed",
            };
            say(&format!("{word} {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn on_path(name: &str, run: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let path = path::named(name).ok_or_else(|| Failure::new(name, "no such path"))?;
    run(path)
}

/// One line to the bench. If that is gone, this process is about to end.
fn say(line: &str) {
    let line = line.replace('\n', "; ");
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn say_ready(what: &str) {
    say(&format!("ready {what}"));
}

/// Waits for the end of the standard input.
fn wait_for_end() {
    // A failure ends the wait too.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
}

/// Ends this process with its standard input, whatever else it does.
fn end_with_input() {
    thread::spawn(|| {
        wait_for_end();
        std::process::exit(0);
    });
}

fn serve(server: &str) -> Result<()> {
    cores::settle(Host::Edge)?;
    match server {
        "relay" => {
            end_with_input();
            tcp::relay(&mut |at| say_ready(&format!("{at} {at}")))
        }
        "mosquitto" => {
            let _broker = Program::mosquitto(&mut say_ready)?;
            wait_for_end();
            Ok(())
        }
        "zenohd" => {
            let _router = Program::zenohd(&mut say_ready)?;
            wait_for_end();
            Ok(())
        }
        url => meeting(url, &mut say_ready, wait_for_end),
    }
}

/// Requests and answers of a path have topics of their own: several paths share a broker.
fn topics(path: &Path) -> (String, String) {
    let name = path.name.replace('-', "_");
    (
        format!("benches/{name}/request"),
        format!("benches/{name}/answer"),
    )
}

fn echo(path: &Path, at: &str) -> Result<()> {
    cores::settle(Host::Edge)?;
    end_with_input();
    let (requests, answers) = topics(path);
    let server = (at != NOWHERE).then_some(at);
    match path.over {
        Over::Tcp => tcp::echo(server, &mut say_ready),
        Over::Contract => contract::echo(at, &requests, &answers, &mut say_ready),
        Over::Mqtt(style) => bare::mqtt::echo(at, &requests, &answers, style, &mut say_ready),
        Over::Zenoh(style) => bare::zenoh::echo(server, &requests, &answers, style, &mut say_ready),
        Over::Ros(style) => bare::ros::echo(at, &requests, &answers, style, &mut say_ready),
        Over::Native(native) => Err(native.become_it(&["echo", at, &requests, &answers])),
    }
}

fn ask(path: &Path, at: &str) -> Result<()> {
    cores::settle(Host::Vehicle)?;
    let (requests, answers) = topics(path);
    let mut asker: Box<dyn Asker> = match path.over {
        Over::Tcp => Box::new(tcp::Direct::open(at)?),
        Over::Contract => Box::new(contract::Over::open(at, &requests, &answers)?),
        Over::Mqtt(style) => Box::new(bare::mqtt::Mqtt::open(at, &requests, &answers, style)?),
        Over::Zenoh(_) => Box::new(bare::zenoh::Zenoh::open(at, &requests, &answers)?),
        Over::Ros(_) => Box::new(bare::ros::Node::open(&requests, &answers)?),
        Over::Native(native) => {
            return Err(native.become_it(&["ask", at, &requests, &answers]));
        }
    };
    asker.meet()?;
    say_ready(&asker.settings());
    let mut payloads = HashMap::new();
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::new("read order", error))?;
        say(&obey(&mut *asker, &mut payloads, &line)?);
    }
    // What the libraries left running must not delay the end.
    std::process::exit(0);
}

/// An order is `<payload bytes> <round trips before> <round trips>`; the answer is the time of each
/// of the latter, in nanoseconds.
fn obey(
    asker: &mut dyn Asker,
    payloads: &mut HashMap<usize, Bytes>,
    order: &str,
) -> Result<String> {
    let numbers: Vec<usize> = order
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let &[size, before, count] = numbers.as_slice() else {
        return Err(Failure::new("read order", order));
    };
    let payload = payloads.entry(size).or_insert_with(|| payload(size));
    for _ in 0..before {
        asker.round_trip(payload)?;
    }
    let mut times = String::with_capacity(count * 8);
    for _ in 0..count {
        let time = asker.round_trip(payload)?;
        times.push_str(&time.as_nanos().to_string());
        times.push(' ');
    }
    Ok(times)
}
