//! The checks. Their names are the contract; `docs/contract.md` says what each promises.

mod cancel;
mod delivery;
mod guarantee;
mod life;
mod loss;
mod offer;
mod outage;
mod pressure;
mod settings;

use std::future::Future;
use std::pin::Pin;

use crate::scene::{Facts, Outcome, Scene};

/// One check.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    /// The promise.
    pub(crate) name: &'static str,
    /// The reason why it does not apply, if it does not.
    pub(crate) needs: fn(&Facts) -> Result<(), &'static str>,
    pub(crate) run: Run,
}

type Run = for<'a> fn(&'a Scene) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A check by the name of its function, or one that calls a function with arguments.
macro_rules! check {
    ($name:ident, $needs:expr) => {
        check!($name, $needs, $name())
    };
    ($name:ident, $needs:expr, $run:ident($($argument:expr),*)) => {
        $crate::checks::Check {
            name: stringify!($name),
            needs: $needs,
            run: |scene| Box::pin($run(scene $(, $argument)*)),
        }
    };
}
use check;

/// All checks, in the order in which they are run.
pub(crate) fn all() -> impl Iterator<Item = Check> {
    [
        settings::CHECKS,
        delivery::CHECKS,
        guarantee::CHECKS,
        pressure::CHECKS,
        loss::CHECKS,
        cancel::CHECKS,
        offer::CHECKS,
        life::CHECKS,
        outage::CHECKS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// It applies to every transport.
fn always(_: &Facts) -> Result<(), &'static str> {
    Ok(())
}

/// Turns a fact into a need.
fn offered(fact: bool, reason: &'static str) -> Result<(), &'static str> {
    if fact { Ok(()) } else { Err(reason) }
}

fn at_least_once(facts: &Facts) -> Result<(), &'static str> {
    offered(
        facts.capabilities.at_least_once.is_some(),
        "at-least-once is not offered",
    )
}

fn exactly_once(facts: &Facts) -> Result<(), &'static str> {
    offered(
        facts.capabilities.exactly_once.is_some(),
        "exactly-once is not offered",
    )
}

fn metadata(facts: &Facts) -> Result<(), &'static str> {
    offered(facts.capabilities.metadata, "metadata is not offered")
}

fn liveliness(facts: &Facts) -> Result<(), &'static str> {
    offered(facts.capabilities.liveliness, "liveliness is not offered")
}
