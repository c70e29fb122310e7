//! What a transport can do, and the one rule by which requests are granted.

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::qos::{AckScope, Delivery, Granted, Overflow, Qos, Unmet};

/// What an open transport can do. Build it with `..Default::default()`: absent means "cannot".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// At-least-once delivery, with the scope of its acknowledgement.
    pub at_least_once: Option<AckScope>,
    /// Exactly-once delivery, with the scope of its acknowledgement.
    pub exactly_once: Option<AckScope>,
    /// Metadata travels beside the payload by means of the protocol; else in an envelope.
    pub native_metadata: bool,
    /// Metadata arrives at all.
    pub metadata: bool,
    /// Filters may have wildcards.
    pub wildcards: bool,
    /// Priorities are honoured.
    pub priority: bool,
    /// The last message can be kept for late subscribers.
    pub retained: bool,
    /// Peers are announced and their loss is noticed.
    pub liveliness: bool,
    /// A subscriber may block its publishers.
    pub block_on_receive: bool,
    /// Publishers and subscribers of one topic with different schemas are told so.
    pub schema_check: bool,
    /// Handles survive the loss of the connection.
    pub reconnects: bool,
    /// Publishers and subscribers may live in different processes.
    pub cross_process: bool,
    /// Largest payload, in bytes; `None` means memory is the limit.
    pub max_payload: Option<usize>,
}

impl Capabilities {
    /// Grants what a publisher asks for.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] naming the unmet wish, if `want.unmet` is [`Unmet::Fail`].
    pub fn grant_publisher(&self, want: &Qos) -> Result<Granted> {
        self.grant(want, false)
    }

    /// Grants what a subscriber asks for.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] naming the unmet wish, if `want.unmet` is [`Unmet::Fail`].
    pub fn grant_subscriber(&self, want: &Qos) -> Result<Granted> {
        self.grant(want, true)
    }

    fn grant(&self, want: &Qos, subscriber: bool) -> Result<Granted> {
        let unmet = |wish: &str| match want.unmet {
            Unmet::Degrade => Ok(()),
            Unmet::Fail => Err(Error::new(
                ErrorKind::Unsupported,
                "grant qos",
                format!("{wish} is not offered by this transport; ask for less"),
            )),
        };
        let mut delivery = want.delivery;
        if delivery == Delivery::ExactlyOnce && self.exactly_once.is_none() {
            unmet("exactly-once delivery")?;
            delivery = Delivery::AtLeastOnce;
        }
        if delivery == Delivery::AtLeastOnce && self.at_least_once.is_none() {
            unmet("at-least-once delivery")?;
            delivery = Delivery::AtMostOnce;
        }
        let scope = match delivery {
            Delivery::AtMostOnce => None,
            Delivery::AtLeastOnce => self.at_least_once,
            Delivery::ExactlyOnce => self.exactly_once,
        };
        let mut overflow = want.overflow;
        if subscriber && overflow == Overflow::Block && !self.block_on_receive {
            unmet("a subscriber that blocks its publishers")?;
            overflow = Overflow::DropOldest;
        }
        if want.retain && !self.retained {
            unmet("keeping the last message")?;
        }
        if want.priority > 7 {
            return Err(Error::config(format!(
                "priority {} is not in 0..=7",
                want.priority
            )));
        }
        Ok(Granted {
            delivery,
            scope: scope.unwrap_or(AckScope::Nothing),
            overflow,
            depth: want.depth,
            priority: self.priority.then_some(want.priority),
            retain: want.retain && self.retained,
        })
    }

    /// Refuses a payload above the limit.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] naming size and limit.
    pub fn check_size(&self, len: usize) -> Result<()> {
        self.max_payload.map_or(Ok(()), |limit| fits(len, limit))
    }
}

/// Refuses a payload of `size` bytes above `limit`.
pub(crate) fn fits(size: usize, limit: usize) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        "check size",
        format!(
            "payload of {size} B exceeds the limit of {limit} B; raise `max_payload`, or the limit \
             of the other side if that is lower"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmet_wish_fails_or_degrades_visibly() {
        let weak = Capabilities::default();
        let mut want = Qos {
            delivery: Delivery::ExactlyOnce,
            ..Qos::default()
        };
        assert_eq!(
            weak.grant_publisher(&want).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        want.unmet = Unmet::Degrade;
        let granted = weak.grant_publisher(&want).unwrap();
        assert_eq!(
            (granted.delivery, granted.scope),
            (Delivery::AtMostOnce, AckScope::Nothing)
        );

        let acked = Capabilities {
            at_least_once: Some(AckScope::NextHop),
            ..Capabilities::default()
        };
        let granted = acked.grant_publisher(&want).unwrap();
        assert_eq!(
            (granted.delivery, granted.scope),
            (Delivery::AtLeastOnce, AckScope::NextHop)
        );
    }

    #[test]
    fn blocking_is_free_for_publishers_and_negotiated_for_subscribers() {
        let weak = Capabilities::default();
        assert_eq!(
            weak.grant_publisher(&Qos::blocking()).unwrap().overflow,
            Overflow::Block
        );
        assert_eq!(
            weak.grant_subscriber(&Qos::blocking()).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
}
