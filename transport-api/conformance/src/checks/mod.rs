//! The checks. Their names are the contract; `docs/contract.md` says what each promises.

mod cancel;
pub(crate) mod check;
mod delivery;
mod guarantee;
mod life;
mod loss;
pub(crate) mod need;
mod offer;
mod outage;
mod pressure;
mod settings;

use check::Check;

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
