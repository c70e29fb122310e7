//! What a check needs in order to apply; the reason why it does not is shown in its name.

use transport_api::Capabilities;

use crate::scene::{Control, Facts};

pub(crate) type Need = Result<(), Unmet>;

/// Why a check does not apply.
#[derive(Debug)]
pub(crate) struct Unmet {
    pub(crate) reason: String,
    /// The fixture could do better; else the check is about something that there is not.
    pub(crate) missing: bool,
}

fn met(fact: bool, reason: &str) -> Need {
    match fact {
        true => Ok(()),
        false => Err(Unmet {
            reason: reason.to_owned(),
            missing: false,
        }),
    }
}

fn given(control: Control, part: &str) -> Need {
    let missing = control == Control::Missing;
    let reason = match control {
        Control::Given => return Ok(()),
        Control::Pointless(why) => format!("there is no {part}: {why}"),
        Control::Missing => format!("the fixture gives no control over its {part}"),
    };
    Err(Unmet { reason, missing })
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
    given(facts.link, "link")
}

/// A link that can be cut, and a transport that comes back.
pub(super) fn heals(facts: &Facts) -> Need {
    reconnects(facts).and(link(facts))
}

pub(super) fn heals_at_least_once(facts: &Facts) -> Need {
    at_least_once(facts).and(heals(facts))
}

pub(super) fn heals_exactly_once(facts: &Facts) -> Need {
    exactly_once(facts).and(heals(facts))
}

/// A link that can be cut, and a transport that ends then.
pub(super) fn ends(facts: &Facts) -> Need {
    no_reconnects(facts).and(link(facts))
}

/// A server that can be killed, and a transport that comes back.
pub(super) fn restarts(facts: &Facts) -> Need {
    reconnects(facts).and(given(facts.server, "server"))
}

pub(super) fn restarts_at_least_once(facts: &Facts) -> Need {
    at_least_once(facts).and(restarts(facts))
}

/// Priorities, and a link behind which messages pile up.
pub(super) fn ranks(facts: &Facts) -> Need {
    priority(facts).and(link(facts))
}

/// Peers in other processes, whose end is noticed.
pub(super) fn mourns(facts: &Facts) -> Need {
    crosses(facts).and(liveliness(facts))
}
