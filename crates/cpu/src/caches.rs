//! How long a core's caches keep what nobody touches.
//!
//! Under dilation the real time between two uses of the same data grows by the TDF. On a machine of one's own that alone
//! does no harm: data leave a cache when others need the room. In a virtual machine *others* are the neighbours, who need it
//! in real time.

use scale::RealDuration;

use crate::probe;

/// As much as a busy program keeps close: twice the smallest cache, a part of the next.
const BYTES: usize = 64 << 10;
const LINE: usize = 64;
const LINES: usize = BYTES / LINE;
/// Steps between two lines that follow each other: odd, so that all are visited, and far, so that nothing is fetched ahead.
const STRIDE: usize = 389;
const REPEATS: usize = 15;

/// A cache line, so that an array of them is aligned as the cache is.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(usize);

/// The mean real time to fetch a line of memory that was last touched `away` ago, while the calling thread's core ran
/// nothing that needs memory. Takes some fifteen times `away`; the median of as many.
pub fn fetch_after(away: RealDuration) -> RealDuration {
    let lines: Vec<Line> = (0..LINES).map(|i| Line((i + STRIDE) % LINES)).collect();
    let mut took: Vec<u64> = (0..=REPEATS)
        .map(|_| {
            let leave = probe::now();
            while probe::now().since(leave) < away {}
            let start = probe::now();
            let last = (0..LINES).fold(0, |at, _| lines[at].0);
            std::hint::black_box(last);
            probe::now().since(start).as_nanos()
        })
        .skip(1)
        .collect();
    took.sort_unstable();
    RealDuration::from_nanos(took[took.len() / 2] / LINES as u64)
}
