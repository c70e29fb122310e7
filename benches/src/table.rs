//! The tables of ratios.

use std::fmt;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use crate::comparison::{Measured, Pace, Ratio};
use crate::path::{BARE_GOAL, Bare, Goal, Path};

/// How goals were met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Goals that were met.
    pub met: usize,
    /// Goals that were missed.
    pub missed: usize,
}

/// Ratios of every path, in a table for each pace and payload.
#[derive(Debug, Default)]
pub struct Ratios {
    tables: Vec<(Pace, usize, Table)>,
    score: Score,
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        "path",
        "median us",
        "p99 us",
        "x bare library",
        "x handed over",
        "x C library",
        "x floor",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

impl Ratios {
    /// Adds the table of `paths`, of which those of one floor took turns. Goals hold for back to
    /// back; paced ratios are shown beside them.
    pub fn add(&mut self, pace: Pace, size: usize, paths: &[&'static Path], measured: &Measured) {
        let mut table = table();
        for path in paths {
            let Some(series) = measured.get(path.name) else {
                continue;
            };
            let goals = pace == Pace::BackToBack;
            let mut against = |reference: Option<&str>, goal: Option<Goal>| {
                let ratio = reference
                    .filter(|name| *name != path.name)
                    .and_then(|name| series.over(measured.get(name)?));
                let goal = goal.filter(|_| goals).and_then(|goal| goal.at(size));
                self.score.cell(ratio, goal)
            };
            let shortest = path.bare.map(|Bare { shortest, .. }| shortest);
            let handed_over = path.bare.map(|Bare { handed_over, .. }| handed_over);
            let (native, native_goal) = path.native.unzip();
            table.add_row([
                path.name.to_owned(),
                micros(series.median()),
                micros(series.p99()),
                against(shortest, Some(BARE_GOAL)),
                against(handed_over, Some(BARE_GOAL)),
                against(native, native_goal),
                against(Some(path.floor), path.floor_goal),
            ]);
        }
        self.tables.push((pace, size, table));
    }

    /// The goals of all rows.
    pub fn score(&self) -> Score {
        self.score
    }
}

impl fmt::Display for Ratios {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (pace, size, table) in &self.tables {
            write!(f, "\n{}, {size} B\n\n{table}\n", pace.name())?;
        }
        Ok(())
    }
}

impl Score {
    /// A ratio with its spread and, if it has a goal, whether that is met.
    fn cell(&mut self, ratio: Option<Ratio>, goal: Option<f64>) -> String {
        let Some(Ratio { value, spread }) = ratio else {
            return String::new();
        };
        let text = format!("{value:.2} ({:.2}..{:.2})", spread.0, spread.1);
        match goal {
            None => text,
            Some(goal) if value <= goal => {
                self.met += 1;
                format!("{text} <= {goal:.2} met")
            }
            Some(goal) => {
                self.missed += 1;
                format!("{text} > {goal:.2} MISSED")
            }
        }
    }
}

fn micros(nanos: Option<f64>) -> String {
    nanos.map_or("-".to_owned(), |nanos| format!("{:.0}", nanos / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_whether_its_goal_is_met() {
        let mut score = Score::default();
        let ratio = |value| {
            Some(Ratio {
                value,
                spread: (value, value),
            })
        };
        assert_eq!(
            score.cell(ratio(1.0), Some(1.1)),
            "1.00 (1.00..1.00) <= 1.10 met"
        );
        assert_eq!(
            score.cell(ratio(1.2), Some(1.1)),
            "1.20 (1.20..1.20) > 1.10 MISSED"
        );
        assert_eq!(score.cell(ratio(9.0), None), "9.00 (9.00..9.00)");
        assert_eq!(score.cell(None, Some(1.0)), "");
        assert_eq!((score.met, score.missed), (1, 1));
    }
}
