//! When a call that publishes returned, and when its message was acknowledged.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use latency_timeline::{Clock, Point, Timeline};
use tokio::runtime::Handle;
use transport_api::{DeliveryToken, Stage};

/// The two stamps of one published message that are known only afterwards, in nanoseconds of the
/// publisher's clock.
#[derive(Clone, Debug)]
pub struct Receipt {
    returned: i64,
    /// `None` where nothing is acknowledged.
    acknowledged: Option<Arc<OnceLock<i64>>>,
}

impl Receipt {
    /// Of a call that has just returned `token`. Where an acknowledgement is awaited, a task on
    /// `runtime` waits for it, so that the publisher's thread does not have to.
    pub fn of(mut token: DeliveryToken, clock: Clock, runtime: &Handle) -> Self {
        let returned = clock.now();
        let mut look = Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = Pin::new(&mut token).poll(&mut look) {
            // The acknowledgement may have been faster than the return of the call.
            let acknowledged = matches!(outcome, Ok(Stage::Acknowledged));
            return Self {
                returned,
                acknowledged: acknowledged.then(|| Arc::new(OnceLock::from(returned))),
            };
        }
        let slot = Arc::new(OnceLock::new());
        let noted = Arc::clone(&slot);
        runtime.spawn(async move {
            if let Ok(Stage::Acknowledged) = token.await {
                // Set once, here.
                let _ = noted.set(clock.now());
            }
        });
        Self {
            returned,
            acknowledged: Some(slot),
        }
    }

    /// Stamps `returned` and, if it is known by now, `acknowledged`.
    pub fn stamp(&self, timeline: &mut Timeline, returned: Point, acknowledged: Point) {
        timeline.set(returned, self.returned);
        let known = self.acknowledged.as_ref().and_then(|slot| slot.get());
        if let Some(&nanos) = known {
            timeline.set(acknowledged, nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(receipt: &Receipt) -> (Option<i64>, Option<i64>) {
        let mut timeline = Timeline::default();
        receipt.stamp(&mut timeline, Point::ScanReturned, Point::ScanAcknowledged);
        (
            timeline.get(Point::ScanReturned),
            timeline.get(Point::ScanAcknowledged),
        )
    }

    #[tokio::test]
    async fn an_acknowledgement_is_stamped_when_it_comes() {
        let (clock, runtime) = (Clock::start(), Handle::current());
        let (returned, none) = stamps(&Receipt::of(DeliveryToken::queued(), clock, &runtime));
        assert!(returned.is_some());
        assert_eq!(none, None);

        let at_once = DeliveryToken::settled(Ok(Stage::Acknowledged));
        let (returned, acknowledged) = stamps(&Receipt::of(at_once, clock, &runtime));
        assert_eq!(acknowledged, returned);

        let (acknowledger, token) = DeliveryToken::pending();
        let receipt = Receipt::of(token, clock, &runtime);
        assert_eq!(stamps(&receipt).1, None);
        acknowledger.settle(Ok(Stage::Acknowledged));
        while stamps(&receipt).1.is_none() {
            tokio::task::yield_now().await;
        }
        let (returned, acknowledged) = stamps(&receipt);
        assert!(acknowledged >= returned);

        let (acknowledger, token) = DeliveryToken::pending();
        let lost = Receipt::of(token, clock, &runtime);
        drop(acknowledger);
        tokio::task::yield_now().await;
        assert_eq!(stamps(&lost).1, None);
    }
}
