//! The checks. Their names are the contract; `docs/contract.md` says what each promises.

mod cancel;
mod delivery;
mod guarantee;
mod life;
mod loss;
mod need;
mod offer;
mod outage;
mod pressure;
mod settings;

use std::future::Future;
use std::pin::Pin;

use crate::scene::{Facts, Outcome, Scene};
use need::Need;

/// One check.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    /// The promise.
    pub(crate) name: &'static str,
    /// The reason why it does not apply, if it does not.
    pub(crate) needs: fn(&Facts) -> Need,
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
