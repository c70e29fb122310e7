//! Arrivals of a session taken up again whose subscribers are not back yet.

use std::collections::VecDeque;

use transport_api::throttle::Throttle;

use crate::wire::Incoming;

/// Keeps the newest arrivals, bounded in number and in bytes.
#[derive(Debug)]
pub(crate) struct Early {
    arrivals: VecDeque<Incoming>,
    bytes: usize,
    most: usize,
    most_bytes: usize,
    given_up: Throttle,
}

impl Early {
    /// Keeps at most so many, and so many bytes of payload.
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            arrivals: VecDeque::new(),
            bytes: 0,
            most,
            most_bytes,
            given_up: Throttle::default(),
        }
    }

    /// Whether arrivals are kept at all.
    pub(crate) fn is_used(&self) -> bool {
        self.most > 0
    }

    /// Keeps an arrival until its subscriber is back, and gives up the oldest for it.
    pub(crate) fn keep(&mut self, incoming: Incoming) {
        self.bytes += incoming.payload.len();
        self.arrivals.push_back(incoming);
        while self.arrivals.len() > self.most || self.bytes > self.most_bytes {
            let Some(oldest) = self.arrivals.pop_front() else {
                return;
            };
            self.bytes -= oldest.payload.len();
            if let Some(left_out) = self.given_up.admit() {
                tracing::warn!(
                    left_out,
                    "arrival of the persistent session given up: nobody subscribed to it yet"
                );
            }
        }
    }

    /// Takes all of them out.
    pub(crate) fn take(&mut self) -> VecDeque<Incoming> {
        self.bytes = 0;
        std::mem::take(&mut self.arrivals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn incoming(size: usize) -> Incoming {
        Incoming {
            topic: Bytes::from_static(b"a"),
            payload: Bytes::from(vec![0; size]),
            retained: false,
            held: None,
            properties: None,
        }
    }

    #[test]
    fn the_newest_are_kept_within_both_limits() {
        let mut early = Early::new(3, 100);
        let kept = |early: &mut Early, sizes: &[usize]| -> Vec<usize> {
            sizes.iter().for_each(|size| early.keep(incoming(*size)));
            early.take().iter().map(|it| it.payload.len()).collect()
        };
        assert_eq!(kept(&mut early, &[1, 2, 3, 4]), [2, 3, 4]);
        assert_eq!(kept(&mut early, &[50, 40, 30]), [40, 30]);
        assert!(kept(&mut early, &[1, 101]).is_empty());
        assert_eq!(kept(&mut early, &[100, 0]), [100, 0]);
    }
}
