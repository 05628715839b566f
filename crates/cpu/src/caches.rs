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

/// What it costs on a core to come back to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staleness {
    /// Mean real time to fetch a line of memory that was touched [`SOON`] ago.
    pub soon: RealDuration,
    /// How long ago the other lines were touched.
    pub away: RealDuration,
    /// Mean real time to fetch one of those.
    pub late: RealDuration,
}

/// How long a busy program leaves its data alone where it has a core to itself.
pub const SOON: RealDuration = RealDuration::from_nanos(1_000_000);
/// Beyond this a cache forgets no more.
const LONGEST: RealDuration = RealDuration::from_nanos(20_000_000);

/// Measures a core that has nothing else to do, with data left alone for `away` (at most 20 ms count). Takes some fifteen times
/// as long. `None` if this process may not use the core.
pub fn measure(core: usize, away: RealDuration) -> Option<Staleness> {
    let away = away.min(LONGEST);
    let probe = move || {
        let mut only = rustix::thread::CpuSet::new();
        only.set(core);
        rustix::thread::sched_setaffinity(None, &only).ok()?;
        Some(Staleness { soon: fetch_after(SOON), away, late: fetch_after(away) })
    };
    std::thread::spawn(probe).join().ok().flatten()
}

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
