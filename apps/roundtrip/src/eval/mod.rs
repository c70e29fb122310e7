//! `roundtrip eval`: how well the detector's object lists agree with labels.

mod clouds;
mod recording;
mod report;
mod streets;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lidar_detector::{Class, Detection, Detector, Neural};
use lidar_eval::{Cuboid, Evaluation, Finding, Settings};

use crate::cli::{Angles, FormatArgs, threads};
use crate::failure::Failure;
use crate::output::say;
use clouds::Labelled;

/// Detections with lower scores are not looked at.
const LEAST_SCORE: f32 = 0.05;

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// Streets that the generator builds, seen by a VLP-32C, one turn of each.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=streets::MOST),
        env = "ROUNDTRIP_SCENES"
    )]
    scenes: u32,

    /// Which of the streets is the first, and seed of the draws behind intervals.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(..=streets::MOST as u64),
        env = "ROUNDTRIP_SEED"
    )]
    seed: u64,

    /// A labelled recording instead of streets: a file or source as for `sensor info`, such as
    /// `kitti:FOLDER`.
    #[arg(
        long,
        value_name = "SOURCE",
        requires = "labels",
        env = "ROUNDTRIP_CLOUD"
    )]
    cloud: Option<String>,

    /// Its labels: a JSON file, or a folder of KITTI `label_2`.
    #[arg(
        long,
        value_name = "PATH",
        requires = "cloud",
        env = "ROUNDTRIP_LABELS"
    )]
    labels: Option<PathBuf>,

    /// Folder of KITTI `calib`, for KITTI labels.
    #[arg(long, value_name = "DIR", requires = "labels", env = "ROUNDTRIP_CALIB")]
    calib: Option<PathBuf>,

    /// Weights to score instead of those in the program: an ONNX file of this project's training.
    #[arg(long, value_name = "FILE", env = "ROUNDTRIP_WEIGHTS")]
    weights: Option<PathBuf>,

    /// Threads of the neural network.
    #[arg(
        long,
        value_name = "N",
        default_value_t = lidar_detector::DEFAULT_THREADS,
        value_parser = threads,
        env = "ROUNDTRIP_THREADS"
    )]
    threads: usize,

    /// Angle convention of the conversion.
    #[arg(long, value_enum, default_value_t = Angles::Precise, env = "ROUNDTRIP_CONVENTION")]
    convention: Angles,

    /// Objects and detections farther away are left out, in metres.
    #[arg(
        long,
        value_name = "M",
        default_value_t = 50.0,
        env = "ROUNDTRIP_RANGE"
    )]
    range: f64,

    /// Where bands of range end that are looked at for themselves, in metres.
    #[arg(
        long,
        value_name = "M,M",
        value_delimiter = ',',
        default_value = "20,40",
        env = "ROUNDTRIP_BANDS"
    )]
    bands: Vec<f64>,

    /// Points that an object needs in order to count; one with fewer may be found or not.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..),
        env = "ROUNDTRIP_MIN_POINTS"
    )]
    min_points: u32,

    /// Score from which on a detection is believed, for recall and inventions.
    #[arg(
        long,
        value_name = "SCORE",
        default_value_t = lidar_detector::DEFAULT_THRESHOLD,
        env = "ROUNDTRIP_THRESHOLD"
    )]
    threshold: f32,

    /// Draws of scenes behind the intervals; 0 for none.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000,
        value_parser = clap::value_parser!(u32).range(..=100_000),
        env = "ROUNDTRIP_RESAMPLES"
    )]
    resamples: u32,

    #[command(flatten)]
    format: FormatArgs,
}

pub(crate) fn run(args: &EvalArgs) -> Result<ExitCode, Failure> {
    let settings = settings(args)?;
    let mut detector = detector(args)?;
    let names = Class::ALL.map(Class::name).to_vec();
    let mut evaluation = Evaluation::new(names, settings.clone());
    let mut judge = |labelled: Labelled| {
        let found = detector
            .detect(&labelled.cloud)
            .map_err(|error| Failure::new(format!("scan of {}", labelled.name), error))?;
        let found: Vec<_> = found
            .iter()
            .map(finding)
            .filter(|finding| labelled.sees(finding.cuboid.center))
            .collect();
        evaluation.add(labelled.scene, &labelled.objects, &found);
        Ok(())
    };
    let of = match (&args.cloud, &args.labels) {
        (Some(cloud), Some(labels)) => {
            let calib = args.calib.as_deref();
            let labels = recording::read(labels, calib)?;
            let unused = recording::each(cloud, args.convention.into(), labels, &mut judge)?;
            if unused > 0 {
                crate::output::note!(
                    "warning: {unused} labelled scans are not in {cloud}; they are not counted"
                );
            }
            cloud.clone()
        }
        _ => {
            streets::each(args.scenes, args.seed, args.convention.into(), &mut judge)?;
            format!("{} streets from seed {}", args.scenes, args.seed)
        }
    };
    let report = evaluation.report();
    if report.scans == 0 {
        return Err(Failure::text(format!("no scan of {of} is labelled")));
    }
    let text = if args.format.json {
        report::json(&of, &settings, &report)?
    } else {
        report::text(&of, &settings, &report)
    };
    say!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn settings(args: &EvalArgs) -> Result<Settings, Failure> {
    let ends: Vec<f64> = args.bands.iter().copied().chain([args.range]).collect();
    let ascend = ends.is_sorted_by(|a, b| a < b) && ends[0] > 0.0;
    if !ascend || !args.range.is_finite() {
        return Err(Failure::usage(format!(
            "bands {:?} and range {}: give ascending metres above 0, the range last",
            args.bands, args.range
        )));
    }
    if !(LEAST_SCORE..=1.0).contains(&args.threshold) {
        return Err(Failure::usage(format!(
            "threshold {}: give a score from {LEAST_SCORE} to 1",
            args.threshold
        )));
    }
    Ok(Settings {
        range: args.range,
        bands: args.bands.clone(),
        points: args.min_points,
        threshold: args.threshold.into(),
        resamples: args.resamples,
        seed: args.seed,
    })
}

fn detector(args: &EvalArgs) -> Result<Neural, Failure> {
    let neural = match &args.weights {
        None => Neural::embedded(args.threads),
        Some(path) => {
            let bytes = std::fs::read(path)
                .map_err(|error| Failure::new(format!("weights {}", path.display()), error))?;
            Neural::load(bytes, args.threads)
        }
    };
    neural
        .and_then(|neural| neural.with_threshold(LEAST_SCORE))
        .map_err(|error| Failure::new("load the detector", error))
}

fn finding(detection: &Detection) -> Finding<&'static str> {
    let [x, y, _] = detection.center.map(f64::from);
    Finding {
        class: detection.class.name(),
        cuboid: Cuboid {
            center: [x, y],
            size: detection.size.map(f64::from),
            yaw: detection.yaw.into(),
        },
        score: detection.score.into(),
    }
}
