//! `--view`: the live view of a run or of a lone vehicle.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use vehicle::Frame;
use view::{Relay, State, Stream, Viewer};

use crate::failure::Failure;
use crate::output::note;
use crate::phase::Phase;

/// Frames that may wait for a viewer; more are not seen, and counted.
const WAITING: usize = 8;

/// How long the last frames may take to the viewer of a run.
const LAST_FRAMES: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Args)]
pub(crate) struct ViewArgs {
    /// Show clouds, objects and latencies live on a web page at this address, or at 127.0.0.1:7878;
    /// port 0 takes a free one. Looking costs processor time.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1:7878",
        value_parser = address,
        env = "ROUNDTRIP_VIEW"
    )]
    pub(crate) view: Option<SocketAddr>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "give an IP address and a port, such as 127.0.0.1:7878".to_owned())
}

impl ViewArgs {
    /// Starts to serve, if that was asked for.
    pub(crate) fn start(&self) -> Result<Option<Viewer>, Failure> {
        let Some(address) = self.view else {
            return Ok(None);
        };
        let viewer = Viewer::start(address).map_err(|error| {
            let what = format!("serve the view at {address} (--view ADDRESS takes another one)");
            Failure::new(what, error)
        })?;
        note!("view: http://{}/", viewer.address());
        if !address.ip().is_loopback() {
            note!(
                "view: everybody who reaches {} can look; there is no password and no encryption",
                viewer.address()
            );
        }
        Ok(Some(viewer))
    }
}

/// What a vehicle shows its frames in.
pub(crate) enum Screen {
    /// A view of its own.
    Own(Viewer, Stream),
    /// The view of the run that it belongs to.
    OfRun(Relay),
}

impl Screen {
    /// The screen of a vehicle, if it has one, and where its frames go.
    pub(crate) fn of_vehicle(
        args: &ViewArgs,
        relay: Option<&Path>,
        label: &str,
    ) -> Result<Option<(Self, mpsc::Sender<Frame>)>, Failure> {
        let (sender, frames) = mpsc::channel(WAITING);
        let screen = if let Some(path) = relay {
            let what = || format!("reach the view of the run at {}", path.display());
            let relay = Relay::start(path, frames);
            Self::OfRun(relay.map_err(|error| Failure::new(what(), error))?)
        } else if let Some(viewer) = args.start()? {
            let stream = viewer.stream(label);
            stream.feed(frames);
            Self::Own(viewer, stream)
        } else {
            return Ok(None);
        };
        Ok(Some((screen, sender)))
    }

    pub(crate) fn enter(&self, phase: Phase) {
        // A run hears of phases by the reports of its vehicle.
        if let Self::Own(_, stream) = self {
            stream.enter(State::Running(phase.to_string()));
        }
    }

    /// Shows the end; the sender of the frames must be gone.
    pub(crate) async fn finish(self, failure: Option<&str>) {
        match self {
            Self::Own(viewer, stream) => {
                stream.enter(ending(failure));
                viewer.close().await;
            }
            Self::OfRun(relay) => {
                if tokio::time::timeout(LAST_FRAMES, relay.finish())
                    .await
                    .is_err()
                {
                    tracing::warn!("the view did not take the last frames in time");
                }
            }
        }
    }
}

/// How a stream ended.
pub(crate) fn ending(failure: Option<&str>) -> State {
    failure.map_or(State::Ended, |failure| State::Failed(failure.to_owned()))
}
