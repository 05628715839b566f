//! The time dilation factor and the conversions between the two times.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use crate::{Fixed, RealDuration, RealRate, VirtualDuration, VirtualRate};

/// The time dilation factor: real time over virtual time, an exact rational.
///
/// `1.5` is kept as 3/2 and not as a float, so that a long run does not drift. Other crates get conversions and no
/// number: arithmetic with the factor compiles here only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "f64")]
pub struct Tdf {
    num: u64,
    den: u64,
}

/// Why a number is not a time dilation factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TdfError(String);

impl fmt::Display for TdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TdfError {}

impl Tdf {
    /// Real time itself: no dilation.
    pub const ONE: Tdf = Tdf { num: 1, den: 1 };
    /// The largest factor accepted.
    pub const MAX: u64 = 100_000;

    /// The factor `num / den`, reduced; between 1 and [`Tdf::MAX`].
    pub fn new(num: u64, den: u64) -> Result<Tdf, TdfError> {
        if den == 0 || num < den || num / den > Self::MAX || (num / den == Self::MAX && !num.is_multiple_of(den)) {
            return Err(TdfError(format!(
                "a time dilation factor is at least 1 and at most {}, such as 10 or 1.5",
                Self::MAX
            )));
        }
        let g = gcd(num, den);
        Ok(Tdf { num: num / g, den: den / g })
    }

    /// The smallest factor, in whole tenths, that is at least `v`; `None` beyond [`Tdf::MAX`].
    pub fn at_least(v: f64) -> Option<Tdf> {
        // A float that is a tenth but for its rounding counts as that tenth.
        let tenths = (v * 10.0 - 1e-9).ceil().max(10.0);
        if tenths.is_finite() { Tdf::new(tenths as u64, 10).ok() } else { None }
    }

    /// The largest factor, in whole tenths, that is at most `v` and [`Tdf::MAX`]; `None` below 1.
    pub fn at_most(v: f64) -> Option<Tdf> {
        let tenths = (v * 10.0 + 1e-9).floor().min(Self::MAX as f64 * 10.0);
        if tenths >= 10.0 { Tdf::new(tenths as u64, 10).ok() } else { None }
    }

    /// The factor that is a tenth larger; `None` beyond [`Tdf::MAX`].
    pub(crate) fn next_tenth(self) -> Option<Tdf> {
        Tdf::new(self.num * 10 + self.den, self.den * 10).ok()
    }

    /// Twice the factor; `None` beyond [`Tdf::MAX`].
    pub fn doubled(self) -> Option<Tdf> {
        Tdf::new(self.num * 2, self.den).ok()
    }

    /// Half the factor; `None` below 1.
    pub fn halved(self) -> Option<Tdf> {
        Tdf::new(self.num, self.den * 2).ok()
    }

    /// Numerator and denominator, in lowest terms.
    pub(crate) const fn ratio(self) -> (u64, u64) {
        (self.num, self.den)
    }

    /// Numerator and denominator, for programs in C, which do their own arithmetic. Rust converts with
    /// [`to_real`](Self::to_real), [`to_virtual`](Self::to_virtual) and the like.
    pub const fn parts_for_c(self) -> (u64, u64) {
        self.ratio()
    }

    /// The factor as a float.
    pub(crate) fn as_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// The real time in which `d` of virtual time passes, rounded up so that no timer is early.
    pub fn to_real(self, d: VirtualDuration) -> RealDuration {
        let ns = (u128::from(d.as_nanos()) * u128::from(self.num)).div_ceil(u128::from(self.den));
        RealDuration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The virtual time that passes in `d` of real time, rounded down.
    pub fn to_virtual(self, d: RealDuration) -> VirtualDuration {
        let ns = u128::from(d.as_nanos()) * u128::from(self.den) / u128::from(self.num);
        VirtualDuration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Virtual over real time, rounded up to 2^-64: so the virtual time at a real deadline of
    /// [`to_real`](Self::to_real) is what was asked for, and not a nanosecond less.
    pub fn pace(self) -> Fixed {
        Fixed::ratio_up(self.den, self.num)
    }

    /// Virtual seconds that pass in a real nanosecond, times 2^64, rounded down.
    pub fn seconds_per_real_ns(self) -> u64 {
        const SECOND: u128 = 1_000_000_000;
        // A factor is at least 1, so this is less than 2^64.
        ((u128::from(self.den) << 64) / u128::from(self.num) / SECOND) as u64
    }

    /// The rest, in real time, of a wait of which `rest` was left when the factor changed from this one to `other`:
    /// rounded up so that no timer is early.
    pub fn rest_under(self, other: Tdf, rest: RealDuration) -> RealDuration {
        if self == other || rest == RealDuration::ZERO {
            return rest;
        }
        // The change came within a virtual nanosecond, which is left too.
        other.to_real(self.to_virtual(rest) + VirtualDuration::from_nanos(1))
    }

    /// How long an interval of this factor is, in real time, under `other`.
    pub fn interval_under(self, other: Tdf, interval: RealDuration) -> RealDuration {
        // Exact: an interval that was rounded up is rounded back.
        other.to_real(self.to_virtual(interval))
    }

    /// The rate that a link of the target has on the harness: 100 Mbit/s at TDF 10 is 10 Mbit/s
    /// (NSDI 2006, §2.1).
    pub fn to_real_rate(self, rate: VirtualRate) -> RealRate {
        RealRate::from_bits_per_s(rate.bits_per_s() / self.as_f64())
    }
}

impl PartialOrd for Tdf {
    fn partial_cmp(&self, other: &Tdf) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Tdf {
    fn cmp(&self, other: &Tdf) -> Ordering {
        (u128::from(self.num) * u128::from(other.den)).cmp(&(u128::from(other.num) * u128::from(self.den)))
    }
}

impl Default for Tdf {
    fn default() -> Self {
        Tdf::ONE
    }
}

impl fmt::Display for Tdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

impl FromStr for Tdf {
    type Err = TdfError;

    /// Reads a decimal number such as `10` or `1.5`, exactly.
    fn from_str(s: &str) -> Result<Tdf, TdfError> {
        let wrong = || {
            TdfError(format!("`{s}` is not a time dilation factor: write a number of at least 1, such as 10 or 1.5"))
        };
        let (whole, fraction) = s.split_once('.').unwrap_or((s, ""));
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || whole.len() > 9 || fraction.len() > 9 {
            return Err(wrong());
        }
        let den = 10u64.pow(fraction.len() as u32);
        let num = format!("{whole}{fraction}").parse::<u64>().map_err(|_| wrong())?;
        Tdf::new(num, den)
    }
}

impl TryFrom<f64> for Tdf {
    type Error = TdfError;

    /// The decimal that `v` prints as: 1.1 becomes 11/10.
    fn try_from(v: f64) -> Result<Tdf, TdfError> {
        format!("{v}").parse()
    }
}

impl Serialize for Tdf {
    /// Writes a number: 3/2 becomes 1.5.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

pub(crate) const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
