use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The vehicle that carries the sensor, seen from above in the sensor's frame: points in this box
/// are its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ego {
    /// From its rear to its front along x, in metres.
    pub x: [f32; 2],
    /// From its right to its left along y, in metres.
    pub y: [f32; 2],
}

/// A passenger car with the sensor in the middle of its roof.
impl Default for Ego {
    fn default() -> Self {
        Self {
            x: [-2.5, 2.5],
            y: [-1.1, 1.1],
        }
    }
}

impl Ego {
    /// Nothing of the vehicle is in the sensor's view.
    pub const NONE: Self = Self {
        x: [0.0; 2],
        y: [0.0; 2],
    };

    pub(crate) fn covers(&self, x: f32, y: f32) -> bool {
        self.x[0] < x && x < self.x[1] && self.y[0] < y && y < self.y[1]
    }
}

/// A text that is no box.
#[derive(Debug, Clone, Error)]
#[error(
    "`{text}` is no box of a vehicle: give `none`, or its rear, front, right and left end in metres from the \
     sensor, such as `{}`",
    Ego::default()
)]
pub struct EgoError {
    text: String,
}

impl fmt::Display for Ego {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let ([rear, front], [right, left]) = (self.x, self.y);
        write!(f, "{rear},{front},{right},{left}")
    }
}

impl FromStr for Ego {
    type Err = EgoError;

    fn from_str(text: &str) -> Result<Self, EgoError> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        let numbers: Result<Vec<f32>, _> = text.split(',').map(str::parse).collect();
        match numbers.as_deref() {
            // Comparisons with NaN are false.
            Ok(&[rear, front, right, left]) if rear < front && right < left => Ok(Self {
                x: [rear, front],
                y: [right, left],
            }),
            _ => Err(EgoError {
                text: text.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for ego in [Ego::default(), Ego::NONE] {
            assert_eq!(ego.to_string().parse::<Ego>().unwrap(), ego);
        }
        for text in [
            "",
            "1,2,3",
            "1,2,3,4,5",
            "2,1,0,1",
            "0,1,1,0",
            "nan,1,0,1",
            "car",
        ] {
            let error = text.parse::<Ego>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
