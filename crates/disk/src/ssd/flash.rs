//! The dies, the channels that lead to them, and when they are free.
//!
//! Work is given to a die when it is known, and the die says when it will be done: nothing has to happen in between.
//! Reads go before programs and erasures that have not begun, and may suspend the one that has. A channel is taken to
//! be busy for as long as all that has been given to it takes, from when it was given: that bounds what it carries, and
//! leaves out that a transfer may wait for one that was given later and is ready sooner.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use scale::{VirtualDuration, VirtualInstant};

use super::parameters::Flash as Parameters;

#[derive(Clone, Copy, Debug, Default)]
struct Die {
    /// When its last read is done.
    read: VirtualInstant,
    /// When its last program or erasure is done, if nothing is read any more.
    work: VirtualInstant,
    /// Bytes programmed since it was last made to erase.
    programmed: u64,
}

/// All dies and channels of a drive.
#[derive(Debug)]
pub(crate) struct Flash {
    parameters: Parameters,
    dies: Vec<Die>,
    /// When each channel is free.
    channels: Vec<VirtualInstant>,
    /// The die that is programmed next.
    next: usize,
    random: Xoshiro256PlusPlus,
}

pub(crate) fn us(us: f64) -> VirtualDuration {
    VirtualDuration::from_secs_f64(us / 1e6)
}

/// How long a rate takes for so many bytes.
pub(crate) fn transfer(bytes: u64, bytes_per_s: f64) -> VirtualDuration {
    VirtualDuration::from_secs_f64(bytes as f64 / bytes_per_s)
}

impl Flash {
    pub fn new(parameters: Parameters, random: Xoshiro256PlusPlus) -> Flash {
        let (channels, dies) = (parameters.channels as usize, parameters.dies_per_channel as usize);
        Flash {
            parameters,
            dies: vec![Die::default(); channels * dies],
            channels: vec![VirtualInstant::ZERO; channels],
            next: 0,
            random,
        }
    }

    /// The die that holds a page. Neighbouring pages lie on different dies, on different channels first; where a row of
    /// them begins is as good as random, so that no stride always meets the same die.
    fn die_of(&self, page: u64) -> usize {
        let dies = self.dies.len() as u64;
        let (row, column) = (page / dies, page % dies);
        let shift = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((column + shift) % dies) as usize
    }

    /// When the channel of a die has carried so many bytes, which are ready at an instant.
    fn carry(&mut self, die: usize, from: VirtualInstant, ready: VirtualInstant, bytes: u64) -> VirtualInstant {
        let takes = transfer(bytes, self.parameters.channel_bytes_per_s);
        let count = self.channels.len();
        let channel = &mut self.channels[die % count];
        *channel = (*channel).max(from) + takes;
        (*channel).max(ready + takes)
    }

    /// Reads a page, of which `bytes` are wanted; when they are with the controller.
    pub fn read(&mut self, page: u64, from: VirtualInstant, bytes: u64) -> VirtualInstant {
        let at = self.die_of(page);
        let spread = self.parameters.read_spread * (2.0 * self.random.random::<f64>() - 1.0);
        let takes = us(self.parameters.read_us * (1.0 + spread));
        let (suspend, program) = (self.parameters.suspend_us, us(self.parameters.program_us));
        let die = &mut self.dies[at];
        let mut start = from.max(die.read);
        let working = die.work > start;
        if working && die.read <= from {
            start = match suspend {
                Some(wait) => start + us(wait),
                // Each operation under way ends at a multiple of its length before all of it does.
                None => {
                    let left = die.work.since(start).as_nanos();
                    start + VirtualDuration::from_nanos(left % program.as_nanos().max(1))
                }
            };
        }
        let ready = start + takes;
        if working {
            die.work = die.work + takes;
        }
        // The page stays in the die's register until it has been sent.
        let there = self.carry(at, from, ready, bytes);
        self.dies[at].read = there;
        there
    }

    /// Programs the next die with what the controller holds; when it is done. `takes`: how long programming does.
    /// `copied`: how many bytes garbage collection has to copy for it, which the same die does afterwards.
    pub fn program(&mut self, from: VirtualInstant, takes: VirtualDuration, copied: f64) -> VirtualInstant {
        let at = self.next;
        self.next = (self.next + 1) % self.dies.len();
        let Parameters { program_bytes, block_bytes, page_bytes, read_us, program_us, erase_us, .. } = self.parameters;
        // Copied pages go to the controller and back.
        let there = self.carry(at, from, from, program_bytes + 2 * copied as u64);
        let times = copied / program_bytes as f64;
        let copying = times * (read_us * (program_bytes / page_bytes) as f64 + program_us);
        let die = &mut self.dies[at];
        die.work = die.work.max(there).max(die.read) + takes;
        let done = die.work;
        die.work = die.work + us(copying);
        die.programmed += program_bytes + copied as u64;
        let full = die.programmed / block_bytes;
        die.programmed %= block_bytes;
        die.work = die.work + us(full as f64 * erase_us);
        done
    }

    /// Ends all work at an instant.
    pub fn reset(&mut self, at: VirtualInstant) {
        for die in &mut self.dies {
            (die.read, die.work) = (at, at);
        }
        self.channels.fill(at);
    }
}
