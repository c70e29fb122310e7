//! What a check needs in order to apply; the reason why it does not is shown in its name.

use transport_api::Capabilities;

use crate::scene::Facts;

pub(super) type Need = Result<(), &'static str>;

fn met(fact: bool, reason: &'static str) -> Need {
    if fact { Ok(()) } else { Err(reason) }
}

/// It applies to every transport.
pub(super) fn always(_: &Facts) -> Need {
    Ok(())
}

/// For each capability the need that it is offered and the need that it is not.
macro_rules! capabilities {
    ($($has:ident, $lacks:ident, $text:literal: $fact:expr;)*) => {$(
        pub(super) fn $has(facts: &Facts) -> Need {
            let offered: fn(&Capabilities) -> bool = $fact;
            met(offered(&facts.capabilities), concat!($text, " is not offered"))
        }

        #[allow(dead_code, reason = "not every absence can be refused")]
        pub(super) fn $lacks(facts: &Facts) -> Need {
            met($has(facts).is_err(), concat!($text, " is offered"))
        }
    )*};
}

capabilities! {
    at_least_once, no_at_least_once, "at_least_once": |c| c.at_least_once.is_some();
    exactly_once, no_exactly_once, "exactly_once": |c| c.exactly_once.is_some();
    metadata, no_metadata, "metadata": |c| c.metadata;
    wildcards, no_wildcards, "wildcards": |c| c.wildcards;
    priority, no_priority, "priority": |c| c.priority;
    retained, no_retained, "retained": |c| c.retained;
    liveliness, no_liveliness, "liveliness": |c| c.liveliness;
    blocks, no_blocks, "block_on_receive": |c| c.block_on_receive;
    schema_check, no_schema_check, "schema_check": |c| c.schema_check;
    reconnects, no_reconnects, "reconnects": |c| c.reconnects;
    crosses, no_crosses, "cross_process": |c| c.cross_process;
}

/// The URL has a host, so there is an address that can be wrong.
pub(super) fn address(facts: &Facts) -> Need {
    met(facts.address, "the URL has no host")
}

/// A link that can be stalled.
pub(super) fn link(facts: &Facts) -> Need {
    met(facts.link, "the fixture has no link")
}

/// A link that can be cut, and a transport that comes back.
pub(super) fn heals(facts: &Facts) -> Need {
    link(facts).and(reconnects(facts))
}

pub(super) fn heals_at_least_once(facts: &Facts) -> Need {
    heals(facts).and(at_least_once(facts))
}

pub(super) fn heals_exactly_once(facts: &Facts) -> Need {
    heals(facts).and(exactly_once(facts))
}

/// A link that can be cut, and a transport that ends then.
pub(super) fn ends(facts: &Facts) -> Need {
    link(facts).and(no_reconnects(facts))
}

/// A server that can be killed, and a transport that comes back.
pub(super) fn restarts(facts: &Facts) -> Need {
    met(facts.server, "the fixture has no server").and(reconnects(facts))
}

pub(super) fn restarts_at_least_once(facts: &Facts) -> Need {
    restarts(facts).and(at_least_once(facts))
}

/// Peers in other processes, whose end is noticed.
pub(super) fn mourns(facts: &Facts) -> Need {
    crosses(facts).and(liveliness(facts))
}
