//! What an evaluation prints.

use comfy_table::{CellAlignment, Table, presets};
use lidar_eval::{BandReport, DISTANCES, Estimate, Report, Settings};
use serde_json::json;

use crate::failure::Failure;

pub(super) fn json(
    of: &str,
    settings: &Settings,
    report: &Report<&'static str>,
) -> Result<String, Failure> {
    let all = json!({
        "of": of,
        "range": settings.range,
        "min-points": settings.points,
        "threshold": settings.threshold,
        "resamples": settings.resamples,
        "seed": settings.seed,
        "distances": DISTANCES,
        "report": report,
    });
    serde_json::to_string_pretty(&all).map_err(|error| Failure::new("print JSON", error))
}

pub(super) fn text(of: &str, settings: &Settings, report: &Report<&'static str>) -> String {
    let mut text = format!(
        "{of}: {} scans, {} scenes; within {} m, objects of {} points or more\n",
        report.scans, report.scenes, settings.range, settings.points
    );
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let mut head: Vec<String> = ["class", "range, m", "objects"].map(str::to_owned).to_vec();
    head.extend(DISTANCES.map(|distance| format!("AP {distance} m")));
    head.extend(["AP", "ATE, m", "ASE", "AOE", "recall", "invented/scan"].map(str::to_owned));
    let columns = head.len();
    table.set_header(head);
    for class in &report.classes {
        for band in std::iter::once(&class.whole).chain(&class.bands) {
            table.add_row(row(class.class, band));
        }
    }
    for column in 2..columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text.push_str(&format!("{table}\n"));
    text.push_str(&format!(
        "mean AP {}; recall and inventions at score {:.2}: {} invented a scan in all",
        report
            .mean_average_precision
            .map_or("-".to_owned(), |estimate| of_estimate(&estimate)),
        settings.threshold,
        of_estimate(&report.invented),
    ));
    text
}

fn row(class: &str, band: &BandReport) -> Vec<String> {
    let none = || "-".to_owned();
    let number = |value: Option<f64>| value.map_or_else(none, |value| format!("{value:.2}"));
    let [from, to] = band.range;
    let mut cells = vec![
        class.to_owned(),
        format!("{from}-{to}"),
        band.objects.to_string(),
    ];
    match &band.average_precision {
        Some(precisions) => cells.extend(precisions.iter().map(of_estimate)),
        None => cells.extend(DISTANCES.map(|_| none())),
    }
    let mean = band.mean_average_precision;
    cells.push(mean.map_or_else(none, |estimate| of_estimate(&estimate)));
    let score = band.score;
    cells.extend([
        number(score.map(|score| score.translation)),
        number(score.map(|score| score.scale)),
        number(score.map(|score| score.orientation)),
        number(band.recall),
        of_estimate(&band.invented),
    ]);
    cells
}

fn of_estimate(Estimate { value, interval }: &Estimate) -> String {
    match interval {
        Some([low, high]) => format!("{value:.3} ({low:.3} to {high:.3})"),
        None => format!("{value:.3}"),
    }
}
