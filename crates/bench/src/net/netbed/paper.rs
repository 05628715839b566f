//! Figures of Netbed's authors (OSDI 2002, tables 1 to 3): Dummynet and nse on an 850 MHz PC.

use serde_json::{Value, json};

/// The numbers of Dummynet and of nse, where there are any.
type Both<const N: usize> = [Option<[f64; N]>; 2];

/// Delay ms, bytes; of Dummynet and nse: observed round trip ms, its standard deviation, adjusted round trip ms, its
/// error %.
#[rustfmt::skip]
const DELAY: [(u64, usize, [[f64; 4]; 2]); 10] = [
    (0, 64, [[0.177, 0.003, 0.0, 0.0], [0.238, 0.004, 0.0, 0.0]]),
    (0, 1518, [[1.225, 0.004, 0.0, 0.0], [1.554, 0.025, 0.0, 0.0]]),
    (5, 64, [[10.183, 0.041, 10.006, 0.06], [10.251, 0.295, 10.013, 0.13]]),
    (5, 1518, [[11.187, 0.008, 9.962, 0.38], [11.586, 0.067, 10.032, 0.32]]),
    (10, 64, [[20.190, 0.063, 20.013, 0.06], [20.255, 0.014, 20.017, 0.09]]),
    (10, 1518, [[21.185, 0.008, 19.960, 0.20], [21.675, 0.093, 20.121, 0.61]]),
    (50, 64, [[100.185, 0.086, 100.008, 0.00], [100.474, 0.029, 100.236, 0.24]]),
    (50, 1518, [[101.169, 0.013, 99.943, 0.05], [102.394, 3.440, 100.840, 0.84]]),
    (300, 64, [[600.126, 0.133, 599.949, 0.0], [601.690, 0.546, 601.452, 0.24]]),
    (300, 1518, [[600.953, 0.014, 599.728, 0.04], [602.999, 0.093, 601.445, 0.24]]),
];

/// kbit/s, bytes; of Dummynet and nse: kbit/s and error %, if it was measured.
#[rustfmt::skip]
const BANDWIDTH: [(f64, usize, Both<2>); 9] = [
    (56.0, 64, [Some([56.06, 0.11]), Some([55.60, 0.71])]),
    (56.0, 1518, [Some([56.67, 1.89]), Some([56.63, 1.12])]),
    (384.0, 64, [Some([384.2, 0.05]), Some([376.3, 2.00])]),
    (384.0, 1518, [Some([385.2, 0.34]), Some([382.1, 0.49])]),
    (1544.0, 64, [Some([1544.7, 0.04]), Some([1444.5, 6.44])]),
    (1544.0, 1518, [Some([1545.8, 0.11]), Some([1531.0, 0.84])]),
    (10000.0, 64, [Some([10004.0, 0.04]), None]),
    (10000.0, 1518, [Some([10005.0, 0.05]), Some([9659.6, 3.40])]),
    (45000.0, 1518, [Some([45019.0, 0.04]), Some([39857.0, 11.43])]),
];

/// Loss %, bytes; of Dummynet and nse: observed % and error %.
#[rustfmt::skip]
const LOSS: [(f64, usize, [[f64; 2]; 2]); 6] = [
    (0.8, 64, [[0.802, 0.2], [0.819, 2.37]]),
    (0.8, 1518, [[0.803, 0.3], [0.820, 2.50]]),
    (2.5, 64, [[2.51, 0.4], [2.477, 0.92]]),
    (2.5, 1518, [[2.47, 1.1], [2.477, 0.92]]),
    (12.0, 64, [[12.05, 0.4], [11.88, 1.00]]),
    (12.0, 1518, [[12.09, 0.7], [11.89, 0.91]]),
];

/// Table 1's row; errors are without sign, as printed there.
pub fn delay(delay_ms: u64, bytes: usize) -> Value {
    let row = DELAY.iter().find(|r| (r.0, r.1) == (delay_ms, bytes));
    of(row.map(|r| r.2.map(Some)), |[observed, sd, adjusted, error]| match delay_ms {
        0 => json!({"observed_ms": observed, "sd_ms": sd}),
        _ => json!({"observed_ms": observed, "sd_ms": sd, "adjusted_ms": adjusted, "error_percent": error}),
    })
}

/// Table 2's row.
pub fn bandwidth(bits_per_s: f64, bytes: usize) -> Value {
    let row = BANDWIDTH.iter().find(|r| (r.0 * 1e3 - bits_per_s).abs() < 1.0 && r.1 == bytes);
    of(row.map(|r| r.2), |[kbit, error]| json!({"bits_per_s": kbit * 1e3, "error_percent": error}))
}

/// Table 3's row.
pub fn loss(percent: f64, bytes: usize) -> Value {
    let row = LOSS.iter().find(|r| (r.0, r.1) == (percent, bytes));
    of(row.map(|r| r.2.map(Some)), |[observed, error]| json!({"loss_percent": observed, "error_percent": error}))
}

fn of<const N: usize>(row: Option<Both<N>>, cell: impl Fn([f64; N]) -> Value) -> Value {
    let Some([dummynet, nse]) = row else { return Value::Null };
    json!({"dummynet": dummynet.map(&cell), "nse": nse.map(&cell)})
}
