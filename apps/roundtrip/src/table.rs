//! The table that a run prints.

use comfy_table::{CellAlignment, Table, presets};
use latency_timeline::{Offset, Stage, Status, Summary};

use crate::fleet;
use crate::operation;
use crate::results::{Arm, Figure, Outcome};

/// The arms of a run side by side; of several vehicles those over one transport, in a table each.
pub(crate) fn of_arms(arms: &[Arm]) -> String {
    let transport = |arm: &Arm| {
        arm.label
            .split_once('/')
            .map(|(transport, _)| transport.to_owned())
    };
    let mut text = String::new();
    for arms in arms.chunk_by(|a, b| transport(a) == transport(b)) {
        let columns: Vec<(&str, Option<&Outcome>)> = arms
            .iter()
            .map(|arm| (arm.label.as_str(), arm.outcome.as_ref().ok()))
            .collect();
        text.push_str(&render(&columns));
    }
    for arm in arms {
        for note in notes(arm) {
            text.push_str(&format!("{}: {note}\n", arm.label));
        }
    }
    text
}

/// What a run that was told to stop says below its table.
pub(crate) fn interruption(samples: u64, unmeasured: &[String]) -> String {
    let mut text = format!("interrupted: the last column may be of fewer than {samples} samples");
    if !unmeasured.is_empty() {
        text.push_str(&format!("; not measured: {}", unmeasured.join(", ")));
    }
    text.push('\n');
    text
}

/// What a reader of an arm's figures must know.
fn notes(arm: &Arm) -> Vec<String> {
    let ends = arm.early_ends.iter();
    let mut notes: Vec<_> = ends.map(|end| end.how.clone()).collect();
    let outcome = match &arm.outcome {
        Ok(outcome) => outcome,
        Err(failure) => {
            notes.push(failure.to_string());
            return notes;
        }
    };
    if let Some(source) = &outcome.source {
        notes.extend(source.warnings());
    }
    notes.extend(outcome.recording.clone());
    let Some(trial) = &outcome.trial else {
        return notes;
    };
    if let Some(reason) = &trial.rejection {
        notes.push(format!("scans were rejected: {reason}"));
    }
    if trial.answered_by_two > 0 {
        notes.push(format!(
            "two edges answer {}: {} of its scans were answered by both; stop one of them, or give it \
             another prefix",
            arm.vehicle, trial.answered_by_two
        ));
    }
    if let Some(edge) = &outcome.edge
        && let Some(note) = fleet::left_out(&edge.report.served)
    {
        notes.push(note);
    }
    let missing = trial.missing();
    if !missing.is_empty() {
        notes.push(format!("missed: {}", stretches(&missing)));
    }
    if trial.cut_short {
        notes.push("the transport ended before the trial did".to_owned());
    }
    let outages = [
        ("vehicle", outcome.vehicle_outages()),
        ("edge", outcome.edge_outages()),
    ];
    for (side, outages) in outages {
        notes.extend(outages.iter().map(|outage| match outage.until_ns {
            Some(until) => format!(
                "{side} disconnected for {:.3} s: {}",
                until.wrapping_sub(outage.from_ns) as f64 / 1e9,
                outage.cause
            ),
            None => format!("{side} disconnected until the end: {}", outage.cause),
        }));
    }
    if outages.iter().any(|(_, outages)| !outages.is_empty()) {
        notes.push(format!(
            "of the samples that these outages touched, {} were missed, {} rejected, {} answered",
            outcome.count_in_outage(Status::Missed),
            outcome.count_in_outage(Status::Rejected),
            outcome.count_in_outage(Status::Answered),
        ));
    }
    notes.extend(operation::notes(trial));
    if trial.skipped > 0 {
        notes.push(format!(
            "{} turns of the source were not sent: a newer one was there, or they never came",
            trial.skipped
        ));
    }
    if let Some(why) = &trial.source_end {
        notes.push(format!("nothing more to send: {why}"));
    }
    if trial.is_generator_limited() {
        notes.push(format!(
            "{} of {} scans were sent more than {:.1} ms late: this machine did not keep the \
             schedule, so do not compare these figures",
            trial.late(),
            trial.samples.len(),
            trial.late_after() as f64 / 1e6
        ));
    }
    notes
}

/// Ranges of sequence numbers, the first few of them; the summary has all.
fn stretches(ranges: &[[u64; 2]]) -> String {
    let shown = ranges.iter().take(SHOWN).map(|[first, last]| {
        if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        }
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(more) = ranges.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        text.push_str(&format!(
            " and {more} more stretches (`missing` in the summary)"
        ));
    }
    text
}

/// Stretches of missed samples that a note names.
const SHOWN: usize = 5;

fn render(columns: &[(&str, Option<&Outcome>)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(std::iter::once("mean, ms").chain(columns.iter().map(|(label, _)| *label)));
    let mut row = |name: &str, cell: &dyn Fn(&Outcome) -> String| {
        let cells = columns
            .iter()
            .map(|(_, outcome)| outcome.map_or(NONE.to_owned(), cell));
        table.add_row(std::iter::once(name.to_owned()).chain(cells));
    };
    let summary = |outcome: &Outcome, figure| Summary::of(&outcome.values(figure));
    for stage in Stage::ALL {
        row(stage.label(), &|outcome| {
            millis(summary(outcome, Figure::Stage(stage)).map(|summary| summary.mean))
        });
    }
    let total = |outcome: &Outcome| summary(outcome, Figure::Total);
    row("total", &|outcome| {
        millis(total(outcome).map(|total| total.mean))
    });
    row("total, min", &|outcome| {
        millis(total(outcome).map(|total| total.min))
    });
    row("total, median", &|outcome| {
        millis(total(outcome).map(|total| total.median))
    });
    row("total, max", &|outcome| {
        millis(total(outcome).map(|total| total.max))
    });
    row("total, std", &|outcome| {
        millis(total(outcome).and_then(|total| total.std))
    });
    row("delay variation up / down, mean", &|outcome| {
        let directions = outcome.directions();
        let mean = |values: &[i64]| millis(Summary::of(values).map(|summary| summary.mean));
        format!("{} / {}", mean(&directions.up), mean(&directions.down))
    });
    for (end, pick) in [
        ("from", (|offset| offset.from_ns) as fn(&Offset) -> i64),
        ("to", |offset| offset.to_ns),
    ] {
        row(&format!("edge clock offset, {end}"), &|outcome| {
            match &outcome.directions().offsets[..] {
                [offset] => millis(Some(pick(offset) as f64)),
                // None, or an edge that was started anew: the summary has each.
                _ => NONE.to_owned(),
            }
        });
    }
    // Without the vehicle's report nothing is known, which is not the same as none.
    let known = |outcome: &Outcome, number: usize| match outcome.trial {
        Some(_) => number.to_string(),
        None => NONE.to_owned(),
    };
    row("samples sent", &|outcome| {
        known(
            outcome,
            outcome.samples().len() - outcome.count(Status::Rejected),
        )
    });
    row("samples sent late", &|outcome| {
        let trial = outcome.trial.as_ref();
        trial.map_or(NONE.to_owned(), |trial| trial.late().to_string())
    });
    row("samples answered", &|outcome| {
        known(outcome, outcome.count(Status::Answered))
    });
    row("samples missed", &|outcome| {
        known(outcome, outcome.count(Status::Missed))
    });
    row("unanswered when stopped", &|outcome| {
        known(outcome, outcome.count(Status::Interrupted))
    });
    row("missed with warm-up, up / down", &|outcome| {
        let missed = outcome.trial.as_ref().and_then(|trial| trial.missed);
        missed.map_or(NONE.to_owned(), |missed| {
            format!("{} / {}", missed.up, missed.down)
        })
    });
    row("scans dropped, vehicle / edge", &|outcome| {
        let trial = outcome.trial.as_ref();
        let vehicle = trial.map(|trial| trial.publisher.dropped);
        let edge = outcome.edge.as_ref().map(|edge| &edge.report);
        let edge = edge.map(|edge| edge.served.scans.dropped + edge.served.clouds.dropped);
        let shown = |count: Option<u64>| count.map_or(NONE.to_owned(), |count| count.to_string());
        format!("{} / {}", shown(vehicle), shown(edge))
    });
    row("scans expired", &|outcome| {
        let edge = outcome.edge.as_ref();
        edge.map_or(NONE.to_owned(), |edge| {
            edge.report.served.counts.expired.to_string()
        })
    });
    row("samples rejected", &|outcome| {
        known(outcome, outcome.count(Status::Rejected))
    });
    row("other arrivals", &|outcome| {
        let trial = outcome.trial.as_ref();
        trial.map_or(NONE.to_owned(), |trial| {
            (trial.unrelated + trial.undecodable + trial.refused).to_string()
        })
    });
    for (name, cell) in operation::ROWS {
        row(name, &|outcome| {
            outcome.trial.as_ref().map_or(NONE.to_owned(), cell)
        });
    }
    row("bytes up / down, mean", &|outcome| {
        let samples = outcome.samples();
        let mean = |bytes: &dyn Fn(&vehicle::SampleRecord) -> usize| {
            let answered = samples
                .iter()
                .filter(|sample| sample.status == Status::Answered);
            let (sum, n) = answered.fold((0, 0), |(sum, n), sample| (sum + bytes(sample), n + 1));
            let mean = usize::checked_div(sum, n);
            mean.map_or(NONE.to_owned(), |mean| mean.to_string())
        };
        format!(
            "{} / {}",
            mean(&|sample| sample.bytes_up),
            mean(&|sample| sample.bytes_down)
        )
    });
    row("peak memory MB, vehicle / edge / host", &|outcome| {
        let memory = |usage: Option<crate::supervision::Usage>| {
            usage.map_or(NONE.to_owned(), |usage| {
                format!("{:.0}", usage.peak_memory as f64 / 1e6)
            })
        };
        let edge = outcome.edge.as_ref().map(|edge| edge.usage);
        format!(
            "{} / {} / {}",
            memory(outcome.vehicle),
            memory(edge),
            memory(outcome.host)
        )
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let detectors = columns
        .iter()
        .filter_map(|(_, outcome)| outcome.as_ref()?.edge.as_ref());
    let note = detectors
        .map(|edge| format!("detector: {}\n", edge.detector))
        .next();
    format!("{table}\n{}", note.unwrap_or_default())
}

/// What is not known, or does not apply.
const NONE: &str = "-";

fn millis(nanos: Option<f64>) -> String {
    nanos.map_or(NONE.to_owned(), |nanos| format!("{:.3}", nanos / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_of_missed_samples_are_named_and_many_are_shortened() {
        assert_eq!(stretches(&[[3, 3], [7, 9]]), "3, 7 to 9");
        let many: Vec<_> = (0..8).map(|n| [2 * n; 2]).collect();
        let text = stretches(&many);
        assert!(text.starts_with("0, 2, 4, 6, 8 and 3 more"), "{text}");
    }

    #[test]
    fn no_latency_is_printed_for_no_samples() {
        let text = render(&[("mqtt", Some(&Outcome::stopped()))]);
        assert!(!text.contains("NaN") && !text.contains("0.000"), "{text}");
    }
}
