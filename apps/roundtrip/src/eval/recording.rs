//! Recordings with labels in files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lidar_eval::labels::{Calibration, LabelledScan, read_json, read_kitti};
use lidar_sensor::source::Sweep;
use lidar_sensor::{Convention, Converter};

use super::clouds::Labelled;
use crate::failure::Failure;
use crate::sensor::each_sweep;

/// Labels by the number of their scan.
type Labels = BTreeMap<usize, LabelledScan>;

/// The labels of a JSON file, or of a folder as KITTI has them.
pub(super) fn read(path: &Path, calib: Option<&Path>) -> Result<Labels, Failure> {
    let labelled = match (path.is_dir(), calib) {
        (true, Some(calib)) => kitti(path, calib)?,
        (true, None) => {
            return Err(Failure::usage(format!(
                "labels {}: KITTI labels are in the camera's frame; give --calib DIR",
                path.display()
            )));
        }
        (false, Some(calib)) => {
            return Err(Failure::usage(format!(
                "calib {}: only for a folder of KITTI labels, and {} is a file",
                calib.display(),
                path.display()
            )));
        }
        (false, None) => read_json(&text(path)?)
            .map_err(|error| Failure::new(format!("labels {}", path.display()), error))?,
    };
    Ok(labelled.into_iter().map(|scan| (scan.scan, scan)).collect())
}

/// One file for each scan; sorted by name they are in the order of the clouds.
fn kitti(path: &Path, calib: &Path) -> Result<Vec<LabelledScan>, Failure> {
    let what = |path: &Path| format!("labels {}", path.display());
    let entries = fs::read_dir(path).map_err(|error| Failure::new(what(path), error))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry
            .map_err(|error| Failure::new(what(path), error))?
            .path();
        if file.extension().is_some_and(|ending| ending == "txt") {
            files.push(file);
        }
    }
    files.sort();
    let scans = files.iter().enumerate().map(|(scan, file)| {
        let name = file.file_name().unwrap_or_default();
        let place = calib.join(name);
        let calibration = Calibration::read(&text(&place)?)
            .map_err(|error| Failure::new(format!("calib {}", place.display()), error))?;
        let labels = read_kitti(&text(file)?, &calibration)
            .map_err(|error| Failure::new(what(file), error))?;
        Ok(LabelledScan {
            scan,
            // Scans of this collection are from different drives, or far apart.
            scene: name.to_string_lossy().into_owned(),
            labels,
            sector: Some(calibration.sector()),
        })
    });
    scans.collect()
}

fn text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::new(path.display(), error))
}

/// Shows the scans of `source` that have labels to `judge`. Returns how many labelled ones there were
/// no scans for.
pub(super) fn each(
    source: &str,
    convention: Convention,
    mut labels: Labels,
    judge: &mut impl FnMut(Labelled) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    let mut converter = Converter::new(convention);
    let mut scenes: BTreeMap<String, u32> = BTreeMap::new();
    let mut number = 0;
    each_sweep(source, |sweep| {
        let scan = labels.remove(&number);
        let name = format!("scan {number} of {source}");
        number += 1;
        let Some(scan) = scan else {
            return Ok(());
        };
        let cloud = match sweep {
            Sweep::Cloud(cloud) => cloud.clone(),
            Sweep::Scan(turn) => converter
                .convert(&turn.scan)
                .map_err(|error| Failure::new(&name, error))?,
        };
        // Scenes are counted in the order they come.
        let next = scenes.len() as u32;
        let scene = *scenes.entry(scan.scene.clone()).or_insert(next);
        judge(Labelled::new(name, scene, cloud, scan)?)
    })?;
    Ok(labels.len())
}
