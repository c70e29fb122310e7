//! Everything that runs for a measurement.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use url::Url;

use crate::bare::native::ROSCPP;
use crate::child::Child;
use crate::failure::{Failure, Result};
use crate::part::{NOWHERE, server_name};
use crate::path::{Over, PATHS, Path, Server};

/// A server and the addresses of its two ends.
#[derive(Debug)]
struct Served {
    first: String,
    second: String,
    _process: Option<Child>,
}

/// The two ends of a path.
#[derive(Debug)]
struct Ends {
    // Dropped in this order: who asks goes first.
    ask: Child,
    _echo: Child,
    settings: String,
}

/// Every path with its processes.
#[derive(Debug)]
pub struct Stand {
    // The ends go before what is between them.
    ends: Vec<(&'static Path, Result<Ends>)>,
    _servers: HashMap<Server, Result<Served>>,
}

impl Stand {
    /// Starts everything; `peer` is the program `bench-peer`. What cannot be started is kept as a
    /// failure.
    pub fn start(peer: impl Into<OsString>) -> Self {
        let peer = peer.into();
        let mut servers = HashMap::new();
        let ends = PATHS
            .iter()
            .map(|path| (path, start(&peer, path, &mut servers)))
            .collect();
        Self {
            ends,
            _servers: servers,
        }
    }

    /// The paths that can be measured.
    pub fn running(&self) -> Vec<&'static Path> {
        let running = self.ends.iter().filter(|(_, ends)| ends.is_ok());
        running.map(|(path, _)| *path).collect()
    }

    /// The others, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&'static Path, &Failure)> {
        self.ends
            .iter()
            .filter_map(|(path, ends)| Some((*path, ends.as_ref().err()?)))
    }

    /// The library and settings of each path that can be measured, in one line.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.ends
            .iter()
            .filter_map(|(path, ends)| Some((path.name, ends.as_ref().ok()?.settings.as_str())))
    }

    /// `count` round trips of `size` bytes back to back after `before` that are not counted; the
    /// time of each. A path that fails is not tried again and gives none.
    pub fn round_trips(
        &mut self,
        path: &Path,
        size: usize,
        before: usize,
        count: usize,
    ) -> Vec<Duration> {
        let found = self.ends.iter_mut().find(|(it, _)| it.name == path.name);
        let Some((_, ends)) = found else {
            return Vec::new();
        };
        let Ok(running) = ends else {
            return Vec::new();
        };
        match running.ask.order(&format!("{size} {before} {count}")) {
            Ok(times) => times
                .split_ascii_whitespace()
                .filter_map(|time| time.parse().ok())
                .map(Duration::from_nanos)
                .collect(),
            Err(failure) => {
                eprintln!("{}: FAILED: {failure}", path.name);
                *ends = Err(failure);
                Vec::new()
            }
        }
    }
}

fn start(peer: &OsStr, path: &Path, servers: &mut HashMap<Server, Result<Served>>) -> Result<Ends> {
    if let Over::Native(native) = path.over {
        native.compile(peer)?;
    }
    let served = servers
        .entry(path.server)
        .or_insert_with(|| serve(peer, path.server));
    let (first, second) = match served {
        Ok(served) => (served.first.clone(), served.second.clone()),
        Err(failure) => return Err(failure.clone()),
    };
    let mut environment = Vec::new();
    let master;
    if matches!(path.over, Over::Ros(_) | Over::Native(ROSCPP)) {
        master = master_uri(&first)?;
        environment = vec![
            ("ROS_MASTER_URI", master.as_str()),
            ("ROS_HOSTNAME", "127.0.0.1"),
        ];
    }
    let (echo, at) = Child::start(peer, &["echo", path.name, &first], &environment)?;
    // Without a server the answering end listens and says where.
    let second = if second == NOWHERE { at } else { second };
    let (ask, settings) = Child::start(peer, &["ask", path.name, &second], &environment)?;
    Ok(Ends {
        ask,
        _echo: echo,
        settings,
    })
}

fn serve(peer: &OsStr, server: Server) -> Result<Served> {
    let Some(name) = server_name(server) else {
        return Ok(Served {
            first: NOWHERE.to_owned(),
            second: NOWHERE.to_owned(),
            _process: None,
        });
    };
    let (process, said) = Child::start(peer, &["serve", name], &[])?;
    let (first, second) = said
        .split_once(' ')
        .ok_or_else(|| Failure::new(name, format!("gave one address: `{said}`")))?;
    Ok(Served {
        first: first.to_owned(),
        second: second.to_owned(),
        _process: Some(process),
    })
}

/// The address of a master as ROS nodes read it.
fn master_uri(url: &str) -> Result<String> {
    let parsed = Url::parse(url).map_err(|error| Failure::new(url, error))?;
    match (parsed.host_str(), parsed.port()) {
        (Some(host), Some(port)) => Ok(format!("http://{host}:{port}/")),
        _ => Err(Failure::new(url, "names no host and port")),
    }
}
