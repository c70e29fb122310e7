use std::collections::BTreeSet;

use serde::Deserialize;
use thiserror::Error;

use super::{Label, LabelledScan};

/// Why a text holds no labels.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JsonError {
    /// It is no JSON, or has other keys.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Two entries are for the same scan.
    #[error("scan {scan} is labelled twice")]
    Twice {
        /// Which.
        scan: usize,
    },
    /// A number cannot be.
    #[error("scan {scan}: {what} cannot be {value:?}; give {wanted}")]
    Value {
        /// In which.
        scan: usize,
        /// What the number is for.
        what: &'static str,
        /// What it is.
        value: Vec<f64>,
        /// What it may be.
        wanted: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scans: Vec<Scan>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scan {
    scan: Option<usize>,
    #[serde(default)]
    scene: String,
    /// In degrees.
    sector: Option<[f64; 2]>,
    boxes: Vec<Box>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Box {
    class: String,
    center: [f64; 3],
    size: [f64; 3],
    yaw: f64,
}

/// Labels in the JSON form of this project:
///
/// ```json
/// { "scans": [ { "scan": 0, "scene": "a", "sector": [-40, 40],
///                "boxes": [ { "class": "car", "center": [12.1, -3.0, -0.9],
///                             "size": [4.4, 1.8, 1.5], "yaw": 0.02 } ] } ] }
/// ```
///
/// Metres and radians in the sensor frame, the sector in degrees from -180 to 180. Without `scan` it is
/// the place in the list, without `scene` all are of one, without `sector` all around is labelled.
///
/// # Errors
///
/// If it is no JSON, has other keys, or a number that cannot be.
pub fn read_json(text: &str) -> Result<Vec<LabelledScan>, JsonError> {
    let file: File = serde_json::from_str(text)?;
    let mut seen = BTreeSet::new();
    let scans = file.scans.into_iter().enumerate().map(|(place, entry)| {
        let scan = entry.scan.unwrap_or(place);
        if !seen.insert(scan) {
            return Err(JsonError::Twice { scan });
        }
        let refused = |what, value: &[f64], wanted| JsonError::Value {
            scan,
            what,
            value: value.to_vec(),
            wanted,
        };
        if let Some([from, to]) = entry.sector
            && !(-180.0 <= from && from < to && to <= 180.0)
        {
            let wanted = "two azimuths from -180 to 180 degrees, the lower one first";
            return Err(refused("a sector", &[from, to], wanted));
        }
        let labels = entry.boxes.into_iter().map(|one| {
            if !one.size.iter().all(|&size| size > 0.0) {
                let wanted = "three numbers above 0";
                return Err(refused("a size", &one.size, wanted));
            }
            Ok(Label {
                class: one.class,
                center: one.center,
                size: one.size,
                yaw: one.yaw,
            })
        });
        Ok(LabelledScan {
            scan,
            scene: entry.scene,
            labels: labels.collect::<Result<_, _>>()?,
            sector: entry.sector.map(|ends| ends.map(f64::to_radians)),
        })
    });
    scans.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: &str = r#"{"class":"car","center":[1,2,3],"size":[4,2,1],"yaw":0}"#;

    #[test]
    fn a_file_is_read() {
        let text = format!(
            r#"{{"scans":[{{"boxes":[{BOX}]}},{{"scan":7,"scene":"b","sector":[-90,90],"boxes":[]}}]}}"#
        );
        let scans = read_json(&text).unwrap();
        assert_eq!((scans[0].scan, scans[1].scan), (0, 7));
        assert_eq!(scans[0].labels[0].center, [1.0, 2.0, 3.0]);
        assert!(scans[0].sees([-1.0, 0.0]));
        assert!(!scans[1].sees([-1.0, 0.0]) && scans[1].sees([1.0, 0.9]));
    }

    #[test]
    fn mistakes_are_told_with_scan_and_value() {
        let flat = BOX.replace("[4,2,1]", "[4,0,1]");
        for (text, said) in [
            (
                r#"{"scans":[{"boxes":[],"sektor":[0,1]}]}"#.to_owned(),
                "sektor",
            ),
            (
                r#"{"scans":[{"scan":1,"boxes":[]},{"boxes":[]}]}"#.to_owned(),
                "scan 1",
            ),
            (
                format!(r#"{{"scans":[{{"boxes":[{flat}]}}]}}"#),
                "[4.0, 0.0, 1.0]",
            ),
            (
                r#"{"scans":[{"boxes":[],"sector":[10,-10]}]}"#.to_owned(),
                "[10.0, -10.0]",
            ),
            ("{".to_owned(), "EOF"),
        ] {
            let error = read_json(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
