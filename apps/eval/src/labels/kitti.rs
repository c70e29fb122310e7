use thiserror::Error;

use super::{IGNORE, Label};

/// Width of the images of the collection, in pixels.
const IMAGE_WIDTH: f64 = 1_242.0;

/// A file that is not as the KITTI object collection has it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KittiError {
    /// A line of labels.
    #[error("line {line}: {fault}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        fault: String,
    },
    /// A matrix of the calibration.
    #[error("{name}: {fault}")]
    Matrix {
        /// Its name.
        name: &'static str,
        /// What is wrong.
        fault: String,
    },
}

/// How the camera, in whose frame the labels are, is placed to the lidar.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// From the lidar to the rectified camera: rotation and shift.
    rotation: [[f64; 3]; 3],
    shift: [f64; 3],
    sector: [f64; 2],
}

impl Calibration {
    /// Out of a file of `calib`: `P2`, `R0_rect` and `Tr_velo_to_cam`.
    ///
    /// # Errors
    ///
    /// If one of them is not there or not of the right size, or the camera has no focal length.
    pub fn read(text: &str) -> Result<Self, KittiError> {
        let projection: [f64; 12] = matrix(text, "P2")?;
        let rectify: [f64; 9] = matrix(text, "R0_rect")?;
        let place: [f64; 12] = matrix(text, "Tr_velo_to_cam")?;
        let rectify: [[f64; 3]; 3] =
            std::array::from_fn(|row| std::array::from_fn(|column| rectify[3 * row + column]));
        let column = |n: usize| std::array::from_fn(|row| place[4 * row + n]);
        let columns = [column(0), column(1), column(2)].map(|part| turned(&rectify, part));
        let [focal, middle] = [projection[0], projection[2]];
        if focal <= 0.0 {
            return Err(KittiError::Matrix {
                name: "P2",
                fault: format!("the focal length cannot be {focal}"),
            });
        }
        Ok(Self {
            rotation: std::array::from_fn(|row| std::array::from_fn(|column| columns[column][row])),
            shift: turned(&rectify, column(3)),
            // Pixels count to the right, azimuths to the left.
            sector: [
                -((IMAGE_WIDTH - middle) / focal).atan(),
                (middle / focal).atan(),
            ],
        })
    }

    /// Azimuths that the camera sees, in radians from x towards y: only there is anything labelled.
    pub fn sector(&self) -> [f64; 2] {
        self.sector
    }

    /// Into the frame of the lidar; a rotation is undone by its transpose.
    fn unturned(&self, vector: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|axis| {
            (0..3)
                .map(|row| self.rotation[row][axis] * vector[row])
                .sum()
        })
    }
}

fn turned(rotation: &[[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
    rotation.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
}

fn matrix<const N: usize>(text: &str, name: &'static str) -> Result<[f64; N], KittiError> {
    let fault = |fault: String| KittiError::Matrix { name, fault };
    let named = text.lines().filter_map(|line| line.split_once(':'));
    let (_, values) = named
        .clone()
        .find(|(found, _)| found.trim() == name)
        .ok_or_else(|| fault("is not in the file; is it of the object collection?".to_owned()))?;
    let values = numbers(values.split_whitespace()).map_err(fault)?;
    let found = values.len();
    values
        .try_into()
        .map_err(|_| fault(format!("has {found} numbers and not {N}")))
}

fn numbers<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<f64>, String> {
    let number = |text: &str| match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("{text:?} is no number")),
    };
    texts.map(number).collect()
}

/// The objects of a file of `label_2`, in the frame of the lidar. Classes become those of this project;
/// trams and what is named as miscellaneous are not to be judged. Regions of the image named
/// `DontCare` have no place and are left out.
///
/// # Errors
///
/// If a line has another form or an unknown class.
pub fn read_kitti(text: &str, calibration: &Calibration) -> Result<Vec<Label>, KittiError> {
    let mut labels = Vec::new();
    for (line, words) in (1..).zip(text.lines()) {
        let fault = |fault: String| KittiError::Line { line, fault };
        let mut words = words.split_whitespace();
        let class = match words.next() {
            None | Some("DontCare") => continue,
            Some("Car") => "car",
            Some("Van") => "van",
            Some("Truck") => "truck",
            Some("Pedestrian" | "Person_sitting") => "pedestrian",
            Some("Cyclist") => "cyclist",
            Some("Tram" | "Misc") => IGNORE,
            Some(other) => return Err(fault(format!("class {other:?} is unknown"))),
        };
        let numbers = numbers(words).map_err(fault)?;
        // A sixteenth word would be the score of a detection.
        let [_, _, _, _, _, _, _, height, width, length, x, y, z, turned] = numbers[..] else {
            let found = numbers.len();
            return Err(fault(format!("has {found} numbers and not 14")));
        };
        if [height, width, length].iter().any(|&size| size <= 0.0) {
            return Err(fault(format!(
                "height, width and length cannot be {height}, {width} and {length}"
            )));
        }
        // In the camera's frame y is down, and the place is that of the bottom.
        let middle = [x, y - height / 2.0, z];
        let placed = std::array::from_fn(|axis| middle[axis] - calibration.shift[axis]);
        let (sin, cos) = turned.sin_cos();
        let [ahead, left, _] = calibration.unturned([cos, 0.0, -sin]);
        labels.push(Label {
            class: class.to_owned(),
            center: calibration.unturned(placed),
            size: [length, width, height],
            yaw: left.atan2(ahead),
        });
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A camera 0.3 m before and 0.1 m below the lidar that looks straight ahead.
    const CALIBRATION: &str = "P0: 1 0 0 0 0 1 0 0 0 0 1 0\n\
        P2: 700 0 600 0 0 700 180 0 0 0 1 0\n\
        R0_rect: 1 0 0 0 1 0 0 0 1\n\
        Tr_velo_to_cam: 0 -1 0 0 0 0 -1 -0.1 1 0 0 -0.3\n";

    #[test]
    fn boxes_come_into_the_frame_of_the_lidar() {
        let calibration = Calibration::read(CALIBRATION).unwrap();
        // Ahead by 20 m, 2 m to the right, its bottom 1.6 m below the camera, facing right.
        let text = "Car 0.00 0 0.0 1 2 3 4 1.5 1.8 4.2 2.0 1.6 20.0 0.0\n\
                    DontCare -1 -1 -10 503.89 169.71 590.61 190.13 -1 -1 -1 -1000 -1000 -1000 -10\n\
                    Misc 0.00 0 0.0 1 2 3 4 1.5 1.8 4.2 2.0 1.6 20.0 -1.5707963267948966\n";
        let labels = read_kitti(text, &calibration).unwrap();
        assert_eq!(labels.len(), 2);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a}, not {b}");
        let car = &labels[0];
        assert_eq!((car.class.as_str(), car.size), ("car", [4.2, 1.8, 1.5]));
        for (value, wanted) in car.center.into_iter().zip([20.3, -2.0, -0.95]) {
            near(value, wanted);
        }
        near(car.yaw, -std::f64::consts::FRAC_PI_2);
        assert_eq!(labels[1].class, IGNORE);
        near(labels[1].yaw, 0.0);
        let [right, left] = calibration.sector();
        near(left, (600.0_f64 / 700.0).atan());
        near(right, -(642.0_f64 / 700.0).atan());
    }

    #[test]
    fn mistakes_are_told_with_line_and_value() {
        let calibration = Calibration::read(CALIBRATION).unwrap();
        for (text, said) in [
            ("Kar 0 0 0 1 2 3 4 1 1 1 1 1 1 0", "line 1: class \"Kar\""),
            ("\nCar 0 0 0 1 2 3 4 1 1 1 1 1 1", "line 2: has 13"),
            ("Car 0 0 0 1 2 3 4 1 1 x 1 1 1 0", "\"x\" is no number"),
            ("Car 0 0 0 1 2 3 4 0 1 1 1 1 1 0", "cannot be 0, 1 and 1"),
        ] {
            let error = read_kitti(text, &calibration).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        for (text, said) in [
            (CALIBRATION.replace("R0_rect", "R_rect"), "R0_rect: is not"),
            (CALIBRATION.replace("-0.3", ""), "Tr_velo_to_cam: has 11"),
            (CALIBRATION.replace("P2: 700", "P2: 0"), "P2: the focal"),
        ] {
            let error = Calibration::read(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
