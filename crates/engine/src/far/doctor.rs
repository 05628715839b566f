//! A look at all machines of a harness: what each offers and lacks, and what is between it and this one.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use scale::RealDuration;
use site::{About, Error, FarClock, FarTime, Finding, Jump, LONGEST_PIECE, Result};

use super::{Far, Stream, Way};

/// How long a machine has to look at itself: it takes three seconds where nothing else runs.
const LOOKING: Duration = Duration::from_secs(60);
/// How long a clock is followed.
const FOLLOWED: Duration = Duration::from_secs(6);
/// How long after one question for the time the next comes.
const PAUSE: Duration = Duration::from_millis(5);
/// Of so many questions one counts.
const WINDOW: RealDuration = RealDuration::from_nanos(250_000_000);
/// How long a piece takes by which a bandwidth is measured, at least, where it may be so long.
const PIECE: Duration = Duration::from_millis(200);
/// How fast two clocks get apart at most where both are as they should be: a crystal is within 100 ppm.
const DRIFT_PPM: f64 = 200.0;

/// A machine of the harness as it was found.
#[derive(Debug)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// The findings, or why there are none.
    pub found: Result<Found>,
}

/// A machine that answered.
#[derive(Debug)]
pub struct Found {
    /// Its name, kernel and size.
    pub about: About,
    /// Findings about it, and about the way to it.
    pub findings: Vec<Finding>,
    /// The measurements behind these.
    pub between: Between,
}

/// The way between a machine and this one, and both clocks.
#[derive(Clone, Debug)]
pub struct Between {
    /// Round trips of small questions, the shortest first.
    pub round_trips: Vec<RealDuration>,
    /// Bandwidth of the stream there and back, in bit/s.
    pub bits_per_s: [f64; 2],
    /// Its `CLOCK_MONOTONIC` against this one's, since the last jump.
    pub clock: Option<FarTime>,
    /// Jumps of one against the other.
    pub jumps: Vec<Jump>,
}

/// Looks at all machines: at most of them at once, at the streams one after the other, so that they do not slow each
/// other. Takes ten seconds, and half a second for each machine.
pub fn look(ways: &[Way], release: &str) -> Vec<Seen> {
    let begun = each(ways.iter().collect(), |way| {
        let mut far = Far::reach(way, release)?;
        let about = far.ask(Duration::from_secs(10), Stream::about)?;
        let findings = far.ask(LOOKING, Stream::findings)?;
        Ok((far, about, findings))
    });
    let timed = begun.into_iter().map(|begun| {
        let (mut far, about, findings) = begun?;
        let bits_per_s = far.ask(LOOKING, bandwidths)?;
        Ok((far, about, findings, bits_per_s))
    });
    let found = each(timed.collect(), |timed: Result<_>| {
        let (mut far, about, mut findings, bits_per_s) = timed?;
        let between = far.ask(LOOKING, |machine| follow(machine, bits_per_s))?;
        findings.extend(between.findings());
        Ok(Found { about, findings, between })
    });
    let mut seen: Vec<Seen> =
        ways.iter().zip(found).map(|(way, found)| Seen { name: way.name.clone(), found }).collect();
    tell_same(&mut seen);
    seen
}

/// Does the same with each, all at once.
fn each<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> Result<R> + Sync) -> Vec<Result<R>> {
    let work = &work;
    thread::scope(|scope| {
        let begun: Vec<_> = all.into_iter().map(|one| scope.spawn(move || work(one))).collect();
        let end = |thread: thread::ScopedJoinHandle<'_, Result<R>>| {
            thread.join().unwrap_or_else(|_| Err(Error::failed("the thread that asks a machine has panicked")))
        };
        begun.into_iter().map(end).collect()
    })
}

/// Says of machines that are one whose nodes would share its cores.
fn tell_same(seen: &mut [Seen]) {
    let mut first: HashMap<String, String> = HashMap::new();
    for Seen { name, found } in seen {
        let Ok(found) = found else { continue };
        let host = found.about.host_name.clone();
        let finding = match first.get(&found.about.boot) {
            Some(other) => {
                let says = format!("the same machine as `{other}`: nodes of both would share its cores");
                Finding::degraded("machine", host, says)
            }
            None => Finding::ok("machine", host, format!("{}, by its own name", found.about.kernel)),
        };
        if !found.about.boot.is_empty() {
            first.entry(found.about.boot.clone()).or_insert_with(|| name.clone());
        }
        found.findings.insert(0, finding);
    }
}

/// Bandwidths of the stream there and back, in bit/s: of pieces that are longer until one takes a while.
fn bandwidths(machine: &mut Stream) -> Result<[f64; 2]> {
    Ok([bandwidth(machine, Stream::take)?, bandwidth(machine, Stream::give)?])
}

fn bandwidth(machine: &mut Stream, piece: fn(&mut Stream, u32) -> Result<()>) -> Result<f64> {
    // The time of a question that has nothing to carry.
    let mut empty = Duration::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        piece(machine, 0)?;
        empty = empty.min(begun.elapsed());
    }
    let mut bytes: u32 = 64 << 10;
    loop {
        let begun = Instant::now();
        piece(machine, bytes)?;
        let took = begun.elapsed();
        if took >= PIECE || bytes >= LONGEST_PIECE {
            let carried = took.saturating_sub(empty).max(Duration::from_nanos(1));
            return Ok(f64::from(bytes) * 8.0 / carried.as_secs_f64());
        }
        bytes = bytes.saturating_mul(2).min(LONGEST_PIECE);
    }
}

/// Follows the clock of a machine for some seconds.
fn follow(machine: &mut Stream, bits_per_s: [f64; 2]) -> Result<Between> {
    let mut clock = FarClock::new(WINDOW);
    let mut round_trips = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < FOLLOWED {
        let exchange = machine.exchange(host::now)?;
        round_trips.push(exchange.round_trip());
        clock.add(exchange);
        thread::sleep(PAUSE);
    }
    clock.close_window();
    round_trips.sort();
    Ok(Between { round_trips, bits_per_s, clock: clock.known(), jumps: clock.jumps().to_vec() })
}

impl Between {
    /// A quantile of the round trips.
    pub fn round_trip(&self, q: f64) -> RealDuration {
        let last = self.round_trips.len().saturating_sub(1);
        self.round_trips.get((q * last as f64) as usize).copied().unwrap_or(RealDuration::ZERO)
    }

    /// Their meaning for runs over both machines.
    fn findings(&self) -> Vec<Finding> {
        let [shortest, half, most] = [0.0, 0.5, 0.99].map(|q| rounded(self.round_trip(q)));
        let says = format!("of small questions, half within {half}, 99 of 100 within {most}");
        let mut all = vec![Finding::ok("round trip", shortest, says)];
        for (name, bits_per_s) in ["stream there", "stream back"].into_iter().zip(self.bits_per_s) {
            let found = format!("{:.3} Gbit/s", bits_per_s / 1e9);
            all.push(Finding::ok(name, found, "what the stream of bytes carries, one way at a time"));
        }
        if let Some(clock) = &self.clock {
            let found = format!("{:+.6} s", clock.offset_ns as f64 / 1e9);
            let within = rounded(clock.offset_within);
            let says = format!("CLOCK_MONOTONIC there against here, within {within}: half a round trip, and jitter");
            all.push(Finding::ok("clock offset", found, says));
            if let (Some(drift), Some(within)) = (clock.drift_ppm, clock.drift_within_ppm) {
                let found = format!("{drift:+.2} ppm");
                let says = format!("faster there than here, within {within:.2} ppm");
                all.push(match drift.abs() - within > DRIFT_PPM {
                    true => {
                        let says = format!("{says}: more than two crystals are apart; is a clock being slewed?");
                        Finding::degraded("clock drift", found, says)
                    }
                    false => Finding::ok("clock drift", found, says),
                });
            }
        }
        all.push(match &self.jumps[..] {
            [] => Finding::ok("clock jumps", "none", "seen in six seconds; less than a round trip cannot be seen"),
            jumps => {
                let by = jumps.iter().map(|jump| format!("{:+.6} s", jump.by_ns as f64 / 1e9));
                let says = "one of the two clocks jumped (a machine that was suspended, or moved to another host)";
                Finding::degraded("clock jumps", by.collect::<Vec<_>>().join(", "), says)
            }
        });
        all
    }
}

/// With three digits, for people.
fn rounded(time: RealDuration) -> String {
    match time.as_nanos() {
        ns @ 0..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        ns @ 1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        ns => format!("{:.2} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use scale::RealInstant;
    use site::State;

    use super::*;

    fn between(drift: f64, jumps: &[i64]) -> Between {
        let at = RealInstant::from_nanos(9);
        let within = RealDuration::from_nanos(61_000);
        let clock = FarTime {
            at,
            offset_ns: -3_000_000_500,
            offset_within: within,
            drift_ppm: Some(drift),
            drift_within_ppm: Some(1.5),
            shortest: RealDuration::from_nanos(120_000),
        };
        let ns = (0..=100).map(|i| RealDuration::from_nanos(120_000 + i * 10_000));
        let jumps = jumps.iter().map(|by_ns| Jump { at, by_ns: *by_ns, within }).collect();
        Between { round_trips: ns.collect(), bits_per_s: [9.4e8, 1.25e9], clock: Some(clock), jumps }
    }

    fn line(all: &[Finding], name: &str) -> (State, String) {
        let finding = all.iter().find(|f| f.name == name).unwrap();
        (finding.state, format!("{} | {}", finding.found, finding.says))
    }

    #[test]
    fn what_is_between_is_told_in_numbers() {
        let all = between(-12.3, &[]).findings();
        assert!(all.iter().all(|f| f.state == State::Ok), "{all:?}");
        let (_, trips) = line(&all, "round trip");
        assert_eq!(trips, "120.0 µs | of small questions, half within 620.0 µs, 99 of 100 within 1.11 ms");
        assert!(line(&all, "stream there").1.starts_with("0.940 Gbit/s |"));
        assert!(line(&all, "stream back").1.starts_with("1.250 Gbit/s |"));
        let (_, offset) = line(&all, "clock offset");
        assert!(offset.starts_with("-3.000001 s |") && offset.contains("within 61.0 µs"), "{offset}");
        assert_eq!(line(&all, "clock drift").1, "-12.30 ppm | faster there than here, within 1.50 ppm");
        assert!(line(&all, "clock jumps").1.starts_with("none |"));
    }

    #[test]
    fn a_clock_that_cannot_be_followed_is_told() {
        let all = between(480.0, &[5_000_000, -2_000_000_000]).findings();
        let (state, drift) = line(&all, "clock drift");
        assert!(state == State::Degraded && drift.contains("being slewed"), "{drift}");
        let (state, jumps) = line(&all, "clock jumps");
        assert!(state == State::Degraded && jumps.starts_with("+0.005000 s, -2.000000 s |"), "{jumps}");
    }

    #[test]
    fn one_machine_under_two_names_is_told() {
        let about = |boot: &str| About {
            host_name: "h".into(),
            boot: boot.into(),
            processor: "x86_64".into(),
            kernel: "Linux 6.1".into(),
            root: true,
            cores: vec![0, 1],
            memory_bytes: None,
            speed: None,
        };
        let seen = |name: &str, boot: &str| {
            let found = Found { about: about(boot), findings: Vec::new(), between: between(0.0, &[]) };
            Seen { name: name.into(), found: Ok(found) }
        };
        let gone = Seen { name: "c".into(), found: Err(Error::lost("x")) };
        let mut all = [seen("a", "1"), seen("b", "2"), gone, seen("d", "1"), seen("e", ""), seen("f", "")];
        tell_same(&mut all);
        let states: Vec<_> = all.iter().map(|seen| seen.found.as_ref().ok().map(|f| f.findings[0].state)).collect();
        let (ok, degraded) = (Some(State::Ok), Some(State::Degraded));
        assert_eq!(states, [ok, ok, None, degraded, ok, ok]);
        assert!(all[3].found.as_ref().unwrap().findings[0].says.contains("the same machine as `a`"));
    }
}
