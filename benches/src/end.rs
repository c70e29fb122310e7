//! An end that makes round trips.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::failure::{Failure, Result};
use crate::payload::{ANSWER, PROBE, payload};

/// How long one probe may take before it is repeated: the other end may not be connected yet.
const PROBE_PATIENCE: Duration = Duration::from_millis(500);

/// How long the other end may take to answer the first probe; a watchdog for a loaded machine.
const MEETING_PATIENCE: Duration = Duration::from_secs(40);

/// Probes that must come back before anything is measured: every connection there will be is open
/// after the first, and what is adjusted on it is adjusted before the last.
const PROBES: usize = 3;

/// The asking end of a path.
pub trait Asker {
    /// Sends a request.
    ///
    /// # Errors
    /// It was not taken.
    fn send(&mut self, payload: &Bytes) -> Result<()>;

    /// Waits for the next answer and returns its length, in bytes; `None` if there is none within
    /// `patience`. Ends that cannot lose a first message ignore `patience`.
    ///
    /// # Errors
    /// The connection is lost.
    fn receive(&mut self, patience: Option<Duration>) -> Result<Option<usize>>;

    /// The library and the settings in force, in one line.
    fn settings(&self) -> String;

    /// Waits until requests are answered.
    ///
    /// # Errors
    /// They are not, or a connection is lost.
    fn meet(&mut self) -> Result<()> {
        let probe = payload(PROBE);
        let begun = Instant::now();
        let mut answered = 0;
        while answered < PROBES {
            self.send(&probe)?;
            match self.receive(Some(PROBE_PATIENCE))? {
                Some(_) => answered += 1,
                None if begun.elapsed() < MEETING_PATIENCE => {}
                None => {
                    return Err(Failure::Broken(format!(
                        "the other end did not answer within {MEETING_PATIENCE:?}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// One round trip: the time from handing `payload` over to having the answer.
    ///
    /// # Errors
    /// The connection is lost, or what came is no answer.
    fn round_trip(&mut self, payload: &Bytes) -> Result<Duration> {
        let begun = Instant::now();
        self.send(payload)?;
        loop {
            match self.receive(None)? {
                Some(ANSWER) => return Ok(begun.elapsed()),
                // Of a probe that was repeated.
                Some(PROBE) => {}
                Some(length) => {
                    return Err(Failure::Broken(format!(
                        "an answer of {length} B, expected {ANSWER} B"
                    )));
                }
                None => {}
            }
        }
    }
}

/// Tells the bench that the answering end can be reached, and at which address.
pub type Ready<'a> = &'a mut dyn FnMut(&str);
