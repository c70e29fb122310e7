//! Sine, cosine and logarithm from IEEE 754 additions and multiplications only. The standard
//! library's use the platform's, whose last bits differ: a scene would then depend on where it
//! was built.

use std::f64::consts::{FRAC_PI_2, LN_2};

/// `(sin, cos)` of an angle in radians; exact to the last bits of an `f32` for |angle| < 1e6.
pub(crate) fn sin_cos(angle: f32) -> (f32, f32) {
    let angle = f64::from(angle);
    let quarter = (angle / FRAC_PI_2).round();
    let x = angle - quarter * FRAC_PI_2;
    let square = x * x;
    // Taylor series: below 1e-11 for |x| <= pi/4.
    let sin = x
        * (1.0
            - square / 6.0
                * (1.0
                    - square / 20.0
                        * (1.0 - square / 42.0 * (1.0 - square / 72.0 * (1.0 - square / 110.0)))));
    let cos = 1.0
        - square / 2.0
            * (1.0
                - square / 12.0
                    * (1.0 - square / 30.0 * (1.0 - square / 56.0 * (1.0 - square / 90.0))));
    let (sin, cos) = match (quarter as i64).rem_euclid(4) {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    };
    (sin as f32, cos as f32)
}

/// Natural logarithm of a positive, normal number.
pub(crate) fn ln(value: f32) -> f32 {
    let bits = value.to_bits();
    let exponent = f64::from((bits >> 23) as i32 - 127);
    let mantissa = f64::from(f32::from_bits((bits & 0x007f_ffff) | 0x3f80_0000));
    // ln(m) = 2 atanh((m - 1) / (m + 1)), |argument| <= 1/3.
    let x = (mantissa - 1.0) / (mantissa + 1.0);
    let square = x * x;
    let series = (0..10)
        .rev()
        .fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    (exponent * LN_2 + 2.0 * x * series) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library() {
        for step in -2_000..2_000 {
            let angle = step as f32 * 0.01;
            let (sin, cos) = sin_cos(angle);
            assert!((sin - angle.sin()).abs() < 2e-7, "sin {angle}");
            assert!((cos - angle.cos()).abs() < 2e-7, "cos {angle}");
            let value = (step + 2_001) as f32 * 0.007;
            assert!((ln(value) - value.ln()).abs() < 1e-6, "ln {value}");
        }
    }
}
