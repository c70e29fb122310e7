//! One check, with its name and what it needs.

use std::future::Future;
use std::pin::Pin;

use super::need::Need;
use crate::scene::{Facts, Outcome, Scene};

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
        $crate::checks::check::Check {
            name: stringify!($name),
            needs: $needs,
            run: |scene| Box::pin($run(scene $(, $argument)*)),
        }
    };
}
pub(super) use check;
