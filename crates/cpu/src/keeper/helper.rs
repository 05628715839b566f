//! The process that keeps the shares, seen from the engine: started, talked to and ended.
//!
//! Over its standard input and output, a line each: `ready`, then an answer to every word of the engine ([`Word`]).
//! `error …` says why it failed. The end of the input ends it. The other side is [`crate::keeper::burners`].

use std::fmt::Display;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use scale::RealInstant;

use crate::keeper::controller::Room;
use crate::keeper::counters::{BurnerOrders, Maps, Orders};
use crate::{CoreWork, Error, Pace, Speed};

/// How long it may take to answer, and to end.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
const TO_END: Duration = Duration::from_secs(2);

/// What begins a line that says why it failed.
pub(crate) const FAILED: &str = "error ";

/// What the engine tells the process, and what that answers: `going`, `kept`, or the numbers of
/// [`CoreWork`], core by core; none to the last. Cores are named by their place among those that hold nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// The fillers and the poke begin.
    Go,
    /// From now on the poke keeps shares of work on a core.
    Keep(usize, Orders),
    /// The nodes' clocks are kept in these maps.
    Clocks(Maps),
    /// A burner has this beside its siblings. Burners are named by their place among those that burn.
    Burn(usize, BurnerOrders),
    /// What is in the books?
    Work,
    /// All end.
    Release,
}

impl Word {
    /// The answer to [`Word::Work`] while nothing is in the books.
    pub const NOTHING: &str = "none";

    fn write(&self) -> String {
        match self {
            Word::Go => "go".into(),
            Word::Keep(core, Orders { pace: Pace { reference, gain }, room: Room { usable, sold, largest } }) => {
                // Rust writes a number so that it is read back to the last digit.
                format!("keep {core} {} {gain} {usable} {sold} {largest}", reference.units_per_us())
            }
            Word::Clocks(Maps { nodes, burners, node_count, burner_count }) => {
                format!("clocks {nodes} {burners} {node_count} {burner_count}")
            }
            Word::Burn(burner, BurnerOrders { base, scale, sold, largest }) => {
                format!("burn {burner} {base} {scale} {sold} {largest}")
            }
            Word::Work => "work".into(),
            Word::Release => "release".into(),
        }
    }

    /// The word on a line.
    pub fn read(line: &str) -> Result<Word, Error> {
        let parsed = || {
            let mut fields = line.split_whitespace();
            Some(match fields.next()? {
                "go" => Word::Go,
                "work" => Word::Work,
                "release" => Word::Release,
                "clocks" => Word::Clocks(Maps {
                    nodes: fields.next()?.parse().ok()?,
                    burners: fields.next()?.parse().ok()?,
                    node_count: fields.next()?.parse().ok()?,
                    burner_count: fields.next()?.parse().ok()?,
                }),
                "burn" => {
                    let burner = fields.next()?.parse().ok()?;
                    let mut number = || fields.next()?.parse::<f64>().ok();
                    let (base, scale, sold, largest) = (number()?, number()?, number()?, number()?);
                    Word::Burn(burner, BurnerOrders { base, scale, sold, largest })
                }
                "keep" => {
                    let core = fields.next()?.parse().ok()?;
                    let mut number = || fields.next()?.parse::<f64>().ok();
                    let reference = Speed::from_units_per_us(number()?)?;
                    let (gain, usable, sold, largest) = (number()?, number()?, number()?, number()?);
                    Word::Keep(core, Orders { pace: Pace { reference, gain }, room: Room { usable, sold, largest } })
                }
                _ => return None,
            })
        };
        parsed().ok_or_else(|| Error::Fillers(format!("nothing is known of `{line}`")))
    }

    /// The answer to [`Word::Work`], of all cores.
    pub fn of_work(work: &[CoreWork]) -> String {
        let of_core = |work: &CoreWork| {
            let CoreWork { at, metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns } = *work;
            let numbers = [at.as_nanos(), metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns];
            numbers.map(|n| n.to_string()).join(" ")
        };
        work.iter().map(of_core).collect::<Vec<_>>().join(", ")
    }

    fn work(answer: &str) -> Option<Vec<CoreWork>> {
        let of_core = |answer: &str| {
            let numbers = answer.split_whitespace().map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>()?;
            let [at, metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns] = numbers.try_into().ok()?;
            let at = RealInstant::from_nanos(at);
            Some(CoreWork { at, metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns })
        };
        answer.split(',').map(of_core).collect()
    }
}

/// The process, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Helper(Option<Child>);

impl Helper {
    pub fn new(process: Option<Child>) -> Helper {
        Helper(process)
    }

    /// How it ended, if it has: it must not, before it is told to.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.as_mut()?.try_wait().ok()?
    }

    /// Tells it a word, and waits until it is done.
    pub fn tell(&mut self, word: &Word, done: &str) -> Result<(), Error> {
        self.send(word)?;
        self.expect(done)
    }

    /// Asks what is in the books of all cores; nothing, until there is something in each.
    pub fn work(&mut self) -> Result<Vec<CoreWork>, Error> {
        self.send(&Word::Work)?;
        let answer = self.line("work")?;
        if answer == Word::NOTHING {
            return Ok(Vec::new());
        }
        Word::work(&answer).ok_or(Error::Fillers(answer))
    }

    fn send(&mut self, word: &Word) -> Result<(), Error> {
        let input = self.0.as_mut().and_then(|h| h.stdin.as_mut()).ok_or_else(missing)?;
        writeln!(input, "{}", word.write()).map_err(broken)
    }

    /// Reads one line and checks that it is `word`.
    pub fn expect(&mut self, word: &str) -> Result<(), Error> {
        let answer = self.line(word)?;
        if answer == word { Ok(()) } else { Err(Error::Fillers(answer)) }
    }

    /// Reads one line, which is not that it failed.
    fn line(&mut self, word: &str) -> Result<String, Error> {
        let output = self.0.as_mut().and_then(|h| h.stdout.as_mut()).ok_or_else(missing)?;
        // Nothing else comes before the next word, so that all there is belongs to this line.
        let (mut line, mut buffer) = (Vec::new(), [0; 256]);
        while line.last() != Some(&b'\n') {
            let mut fds = [PollFd::new(&*output, PollFlags::IN)];
            let ready = match poll(&mut fds, Some(&PATIENCE)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.map_err(broken)?,
            };
            if ready == 0 {
                return Err(Error::Fillers(format!("no `{word}` within {} s", PATIENCE.tv_sec)));
            }
            match rustix::io::read(output.as_fd(), &mut buffer).map_err(broken)? {
                0 => break,
                read => line.extend_from_slice(&buffer[..read]),
            }
        }
        let line = String::from_utf8_lossy(&line);
        match line.trim_end() {
            "" => Err(Error::Fillers("they ended without a word".into())),
            line => match line.strip_prefix(FAILED) {
                Some(why) => Err(Error::Fillers(why.into())),
                None => Ok(line.into()),
            },
        }
    }

    /// Ends it, and waits until it has.
    pub fn end(&mut self) {
        let Some(mut process) = self.0.take() else { return };
        // One that has ended already cannot be told.
        let _ = process.stdin.take().map(|mut input| writeln!(input, "{}", Word::Release.write()));
        let deadline = Instant::now() + TO_END;
        while process.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > deadline {
                let _ = process.kill();
                let _ = process.wait();
                break;
            }
            sleep(Duration::from_millis(2));
        }
    }
}

fn missing() -> Error {
    Error::Fillers("they were not started".into())
}

fn broken(error: impl Display) -> Error {
    Error::Fillers(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        let pace = Pace { reference: Speed::from_units_per_us(1.0 / 3.0).unwrap(), gain: 0.1 + 0.2 };
        let orders = Orders { pace, room: Room { usable: 0.987_654_321, sold: 1e-3, largest: 1.310_72 } };
        for word in [Word::Go, Word::Keep(6, orders), Word::Work, Word::Release] {
            assert_eq!(Word::read(&word.write()).unwrap(), word);
        }
        for bad in ["", "went", "keep 0 1 2 3 4", "keep 0 0 0.8 0.9 0.5 1.3"] {
            assert!(Word::read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn work_is_read_as_it_was_written() {
        let at = RealInstant::from_nanos(u64::MAX);
        let [metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns] = [1, 2, 3, 4, 5, 6];
        let work = CoreWork { at, metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns };
        let other = CoreWork { units: 77, ..work };
        for all in [vec![work], vec![work, other]] {
            assert_eq!(Word::work(&Word::of_work(&all)), Some(all));
        }
        assert_eq!(Word::work("1 2 3"), None);
        assert_eq!(Word::work("1 2 3 4 5 6 7, 1 2 3 4 5 6"), None);
    }
}
