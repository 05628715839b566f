//! How long the arm takes from one cylinder to another.
//!
//! A short seek is all acceleration and braking, and takes `a + b·√d`; a long one coasts in between, and takes
//! `c + e·d` (Ruemmler and Wilkes, 1994, "The positioning system", whose table for the HP 97560 has both parts). Data
//! sheets give three points of the curve: the seek by a track, the average over all pairs of cylinders, and the full
//! stroke. Where both parts also meet without a kink, the three points determine all four numbers, and where they meet.

use super::parameters::Seek;
use crate::parameters::ParameterError;

/// The time of a seek by its distance, in ms.
#[derive(Debug)]
pub(crate) enum SeekCurve {
    /// `a + b·√d` up to `bend`, `c + e·d` from there on.
    Parts { a: f64, b: f64, bend: f64, c: f64, e: f64 },
    /// Straight lines between points: distance in cylinders, time.
    Points(Vec<(f64, f64)>),
}

impl SeekCurve {
    /// The curve that parameters describe for a drive of so many cylinders.
    ///
    /// # Errors
    /// If there is no such curve.
    pub fn new(seek: &Seek, cylinders: u32) -> Result<SeekCurve, ParameterError> {
        match seek {
            Seek::Published { track_to_track_ms, average_ms, full_stroke_ms } => {
                through(*track_to_track_ms, *average_ms, *full_stroke_ms, f64::from(cylinders.max(3) - 1))
            }
            Seek::Parts { a_ms, b_ms, bend_cylinders, c_ms, e_ms } => {
                Ok(SeekCurve::Parts { a: *a_ms, b: *b_ms, bend: f64::from(*bend_cylinders), c: *c_ms, e: *e_ms })
            }
            Seek::Measured(points) => {
                Ok(SeekCurve::Points(points.iter().map(|(d, ms)| (f64::from(*d), *ms)).collect()))
            }
        }
    }

    /// How long a seek by so many cylinders takes, in ms; none takes no time.
    pub fn ms(&self, distance: u32) -> f64 {
        if distance == 0 {
            return 0.0;
        }
        let d = f64::from(distance);
        match self {
            SeekCurve::Parts { a, b, bend, .. } if d < *bend => a + b * d.sqrt(),
            SeekCurve::Parts { c, e, .. } => c + e * d,
            SeekCurve::Points(points) => {
                let behind = points.partition_point(|(at, _)| *at < d);
                if behind == 0 || behind == points.len() {
                    return points[behind.min(points.len() - 1)].1;
                }
                let ((d0, t0), (d1, t1)) = (points[behind - 1], points[behind]);
                t0 + (t1 - t0) * (d - d0) / (d1 - d0)
            }
        }
    }
}

/// The curve of both parts, without a kink, through three points; `longest` is the full stroke in cylinders.
fn through(single: f64, average: f64, full: f64, longest: f64) -> Result<SeekCurve, ParameterError> {
    // Without a kink, the second part is the tangent of the first where they meet.
    let curve = |bend: f64| {
        let slope = 1.0 / (2.0 * bend.sqrt());
        let b = (full - single) / (bend.sqrt() / 2.0 + slope * longest - 1.0);
        let a = single - b;
        SeekCurve::Parts { a, b, bend, c: a + b * bend.sqrt() / 2.0, e: b * slope }
    };
    // The more of it is a root, the longer is the average.
    let (mut low, mut high) = (1.0_f64, longest);
    let (least, most) = (mean(&curve(low), longest), mean(&curve(high), longest));
    if !(least..=most).contains(&average) {
        let right = format!("from {least:.2} to {most:.2} ms, where the other two are {single} and {full}");
        return Err(ParameterError::new("seek.average-ms", average, right));
    }
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        match mean(&curve(middle), longest) < average {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(curve(high))
}

/// The mean over all pairs of different cylinders: a distance is as frequent as there are pairs so far apart.
fn mean(curve: &SeekCurve, longest: f64) -> f64 {
    const STEPS: u32 = 2_000;
    let weighted = (0..STEPS).map(|i| {
        let part = (f64::from(i) + 0.5) / f64::from(STEPS);
        let weight = 2.0 * (1.0 - part);
        weight * curve.ms((part * longest).max(1.0).round() as u32)
    });
    weighted.sum::<f64>() / f64::from(STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(single: f64, average: f64, full: f64) -> Seek {
        Seek::Published { track_to_track_ms: single, average_ms: average, full_stroke_ms: full }
    }

    #[test]
    fn a_curve_goes_through_what_a_data_sheet_says() {
        // Seagate, Savvio 10K.4 SAS Product Manual (100539221 Rev. A), section 4.2.1, reads of the 600 GB model.
        let curve = SeekCurve::new(&published(0.30, 3.8, 7.81), 147_620).unwrap();
        assert!((curve.ms(1) - 0.30).abs() < 0.001);
        assert!((curve.ms(147_619) - 7.81).abs() < 0.001);
        let pairs = mean(&curve, 147_619.0);
        assert!((pairs - 3.8).abs() < 0.005, "{pairs}");
        let times: Vec<f64> = (1..1000).map(|i| curve.ms(i * 147)).collect();
        assert!(times.windows(2).all(|w| w[0] < w[1]), "further takes longer");
        let SeekCurve::Parts { bend, .. } = curve else { panic!("it has two parts") };
        let at = bend as u32;
        assert!((curve.ms(at + 1) - curve.ms(at)) < 0.01, "the parts meet");
    }

    #[test]
    fn the_published_curve_of_the_hp_97560() {
        // Ruemmler and Wilkes, 1994, table 1: 3.24 + 0.400 √d below 383 cylinders, 8.00 + 0.008 d from there on.
        let hp = Seek::Parts { a_ms: 3.24, b_ms: 0.4, bend_cylinders: 383, c_ms: 8.0, e_ms: 0.008 };
        let curve = SeekCurve::new(&hp, 1962).unwrap();
        assert!((curve.ms(1) - 3.64).abs() < 1e-9 && (curve.ms(1000) - 16.0).abs() < 1e-9);
        assert_eq!(curve.ms(0), 0.0);
    }

    #[test]
    fn points_are_joined_by_lines() {
        let curve = SeekCurve::new(&Seek::Measured(vec![(1, 1.0), (11, 2.0), (100, 10.0)]), 101).unwrap();
        assert!((curve.ms(6) - 1.5).abs() < 1e-9 && (curve.ms(200) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn an_average_that_no_such_arm_has_is_refused_with_what_would_be_right() {
        let text = SeekCurve::new(&published(0.5, 12.0, 15.0), 100_000).unwrap_err().to_string();
        assert!(text.starts_with("`seek.average-ms` is 12; right would be: from 5.3"), "{text}");
    }
}
