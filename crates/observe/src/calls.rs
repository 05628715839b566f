//! Counters of system calls: loading the program that counts, and reading what it has counted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;

use counters::{CallUse, NodeCalls, ProgramCalls, Step};
use host::bpf;
use libbpf_rs::{Link, MapCore, MapFlags, MapImpl, Object, ProgramInput, ProgramType};
use scale::{RealDuration, Tdf, VirtualInstant};

use crate::error::Error;
use crate::names::{MOVE_BYTES, name_of};
use crate::series::{Series, StepKey};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/calls.bpf.o"));

/// The program that this process calls itself.
const HARNESS: &str = "note_harness";

/// As in the program.
const MOST_CALLS: usize = 512;
const NO_CALL: u16 = 0xffff;
const SIZES: usize = 32;

/// How many programs a subject may have, on average, with names of their own, and how many more all together.
const PROGRAMS: [usize; 2] = [8, 56];
const MOST_PROGRAMS: usize = 8_192;
/// How many different calls and steps each may make, on average. Memory is used for those that they make.
const CALLS: u32 = 64;
const STEPS: u32 = 512;

/// How many values are read at once.
const BATCH: u32 = 1_024;

/// Counting takes the difference of so many calls without and with it, the least of some rounds of each.
const TRIED: u32 = 2_000;
const ROUNDS: u32 = 5;

/// Whose calls are counted.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The numbers of control groups of the hierarchy that divides CPU time: a subject each. Those who enter them count
    /// from the next program on that they execute.
    pub groups: Vec<u64>,
    /// The upper half of instruction pointers in the image that dilation puts into programs, if they are dilated.
    pub image: Option<u32>,
}

/// Counters of system calls. They count until this is dropped.
pub struct Calls {
    subjects: usize,
    series: Series,
    for_each: RealDuration,
    // In this order: the links refer to the object.
    links: Vec<Link>,
    object: Object,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("subjects", &self.subjects).finish_non_exhaustive()
    }
}

/// Cost of counting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// For each call, of a core: as it was tried before, with a call that does nothing.
    pub for_each: RealDuration,
    /// How many calls there were.
    pub calls: u64,
}

/// `struct seen` of the program.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SeenWords {
    uncounted: u64,
    programs: u64,
    harness: u64,
    has_roots: u64,
    generation: u64,
}

/// `struct call` of the program.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CallWords {
    count: u64,
    ns: u64,
    errors: u64,
    trapped: u64,
    refused: u64,
    bytes: u64,
    sizes: [u32; SIZES],
}

/// `struct total` of the program.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TotalWords {
    voluntary: u64,
    involuntary: u64,
    faults: u64,
    cpu_ns: u64,
    image_calls: u64,
    image_ns: u64,
}

impl Calls {
    /// Loads the program, and has it count from now on.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it, and why.
    pub fn start(scope: &Scope) -> Result<Calls, Error> {
        let why = Error::Bpf;
        let refused = |e| Error::Bpf(bpf::refused(e));
        let subjects = scope.groups.len().max(1);
        let most_programs = (PROGRAMS[0] * subjects + PROGRAMS[1]).min(MOST_PROGRAMS) as u32;

        let mut moves_bytes = [0u64; MOST_CALLS / 64];
        for number in MOVE_BYTES.iter().map(|call| call.id() as usize) {
            moves_bytes[number / 64] |= 1 << (number % 64);
        }
        let mut config = moves_bytes.map(u64::to_ne_bytes).concat();
        config.extend(u64::from(scope.image.unwrap_or(0)).to_ne_bytes());
        let space = std::fs::metadata("/proc/self/ns/pid").map_err(|e| why(format!("/proc/self/ns/pid: {e}")))?;
        config.extend([space.dev(), space.ino(), most_programs.into()].map(u64::to_ne_bytes).concat());

        let mut open = bpf::open(PROGRAM).map_err(why)?;
        let fill = |v: &mut [u8]| v[..config.len()].copy_from_slice(&config);
        bpf::initial_value(&mut open, ".rodata", config.len(), fill).map_err(why)?;
        let sizes = [
            ("groups", subjects as u32),
            ("programs", most_programs),
            ("totals", most_programs),
            ("calls", CALLS * most_programs),
            ("instead", CALLS * most_programs),
            ("steps", STEPS * most_programs),
        ];
        for (map, entries) in sizes {
            bpf::find(&mut open, map).map_err(why)?.set_max_entries(entries).map_err(refused)?;
        }
        let object = open.load().map_err(refused)?;
        let groups = map(&object, "groups")?;
        for (subject, group) in scope.groups.iter().enumerate() {
            let number = (subject as u32 + 1).to_ne_bytes();
            groups.update(&group.to_ne_bytes(), &number, MapFlags::ANY).map_err(refused)?;
        }
        let harness = object.progs_mut().find(|program| program.name() == OsStr::new(HARNESS));
        let harness = harness.ok_or_else(|| why(format!("its compiled program has no `{HARNESS}`")))?;
        harness.test_run(ProgramInput::default()).map_err(refused)?;
        let traces = object.progs_mut().filter(|program| program.prog_type() == ProgramType::Tracing);
        let traces: Vec<_> = traces.collect();
        let without = try_calls();
        let links: Result<Vec<Link>, _> = traces.into_iter().map(|program| program.attach()).collect();
        let mut calls = Calls {
            subjects,
            series: Series::default(),
            for_each: RealDuration::ZERO,
            links: links.map_err(refused)?,
            object,
        };
        calls.for_each = calls.try_counted()?.saturating_sub(without);
        look_again(&calls.object, scope.groups.is_empty())?;
        Ok(calls)
    }

    /// How long a call takes that is counted: of a thread that is followed as one subject more.
    fn try_counted(&self) -> Result<RealDuration, Error> {
        let tried = || {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            self.follow(own, self.subjects, true)?;
            let taken = try_calls();
            self.leave(own)?;
            Ok(taken)
        };
        // It ends, and is counted no more.
        let tried = std::thread::scope(|scope| scope.spawn(tried).join());
        tried.unwrap_or_else(|_| Err(Error::Bpf("the calls by which it is tried have failed".into())))
    }

    /// Counts a process that is there, and all that it starts, as a subject, numbered from 0: at once, or from the next
    /// program on that it executes.
    pub fn follow(&self, pid: u32, subject: usize, at_once: bool) -> Result<(), Error> {
        let root = [subject as u32 + 1, u32::from(at_once)].map(u32::to_ne_bytes).concat();
        let updated = map(&self.object, "roots")?.update(&pid.to_ne_bytes(), &root, MapFlags::ANY);
        updated.map_err(refusal)?;
        look_again(&self.object, true)
    }

    /// Counts what this process starts no more; what it has started stays.
    pub fn leave(&self, pid: u32) -> Result<(), Error> {
        let deleted = map(&self.object, "roots")?.delete(&pid.to_ne_bytes());
        deleted.map_err(|e| Error::Bpf(bpf::refused(e)))
    }

    /// Ends an interval of virtual time.
    pub fn look(&mut self, at: VirtualInstant) -> Result<(), Error> {
        self.add(at, false)
    }

    fn add(&mut self, at: VirtualInstant, is_last: bool) -> Result<(), Error> {
        let steps = self.steps()?;
        self.series.push(at, steps, is_last);
        Ok(())
    }

    /// Ends counting: the calls of each subject, and what it took to count. Times are divided by the TDF.
    pub fn finish(mut self, at: VirtualInstant, tdf: Tdf) -> Result<(Vec<NodeCalls>, Taken), Error> {
        self.links.clear();
        self.add(at, true)?;
        let calls = self.all(tdf)?;
        let made = calls.iter().map(NodeCalls::made).sum();
        Ok((calls, Taken { for_each: self.for_each, calls: made }))
    }

    fn steps(&self) -> Result<Vec<(StepKey, u64)>, Error> {
        let step = |key: &[u8], value: &[u8]| {
            let half = |from: usize| u16::from_ne_bytes([key[from], key[from + 1]]);
            ((word32(key, 0), half(4), half(6)), word64(value, 0))
        };
        read_all(&map(&self.object, "steps")?, step)
    }

    fn all(&self, tdf: Tdf) -> Result<Vec<NodeCalls>, Error> {
        let named = |key: &[u8], value: &[u8]| {
            let name = key[4..20].split(|byte| *byte == 0).next().unwrap_or_default();
            // A node chooses it, and it is shown at terminals.
            let name = host::visible(&String::from_utf8_lossy(name)).into_owned();
            (word32(value, 0), (word32(key, 0), name))
        };
        let programs: BTreeMap<u32, (u32, String)> =
            read_all(&map(&self.object, "programs")?, named)?.into_iter().collect();
        let call = |key: &[u8], value: &[u8]| ((word32(key, 0), word32(key, 4) as u16), plain::<CallWords>(value));
        let calls: BTreeMap<(u32, u16), CallWords> =
            read_all(&map(&self.object, "calls")?, call)?.into_iter().collect();
        let totals = map(&self.object, "totals")?;
        let uncounted = self.uncounted()?;
        let empty = || NodeCalls { intervals_ns: self.series.ends().to_vec(), programs: Vec::new(), uncounted };
        let mut nodes: Vec<NodeCalls> = std::iter::repeat_with(empty).take(self.subjects).collect();
        for (number, (subject, name)) in programs {
            let total = totals.lookup(&(number - 1).to_ne_bytes(), MapFlags::ANY).map_err(refusal)?;
            let total = total.map_or(TotalWords::default(), |value| plain(&value));
            let steps: Vec<_> = self.series.of(number).collect();
            let mut uses: BTreeMap<u16, CallUse> = BTreeMap::new();
            for ([_, to], counts) in &steps {
                let used = uses.entry(*to).or_insert_with(|| CallUse { call: name_of(*to), ..CallUse::default() });
                used.made += counts.iter().sum::<u64>();
            }
            for ((_, call), words) in calls.range((number, 0)..=(number, u16::MAX)) {
                let used = uses.entry(*call).or_insert_with(|| CallUse { call: name_of(*call), ..CallUse::default() });
                let moves = MOVE_BYTES.iter().any(|moves| moves.id() == i32::from(*call));
                *used = CallUse {
                    ended: words.count,
                    virtual_ns: tdf.to_virtual(RealDuration::from_nanos(words.ns)),
                    errors: words.errors,
                    trapped: words.trapped,
                    refused: words.refused,
                    bytes: words.bytes,
                    sizes: if moves { words.sizes.to_vec() } else { Vec::new() },
                    ..std::mem::take(used)
                };
            }
            let step = |([from, to], counts): ([u16; 2], Vec<u64>)| Step {
                from: (from != NO_CALL).then(|| name_of(from)),
                to: name_of(to),
                counts,
            };
            let program = ProgramCalls {
                program: name,
                calls: uses.into_values().collect(),
                steps: steps.into_iter().map(step).collect(),
                voluntary_switches: total.voluntary,
                involuntary_switches: total.involuntary,
                page_faults: total.faults,
                cpu_real_ns: RealDuration::from_nanos(total.cpu_ns),
                image_calls: total.image_calls,
                image_real_ns: RealDuration::from_nanos(total.image_ns),
            };
            if let Some(node) = nodes.get_mut(subject as usize - 1) {
                node.programs.push(program);
            }
        }
        nodes.iter_mut().for_each(|node| node.programs.sort_by(|a, b| a.program.cmp(&b.program)));
        Ok(nodes)
    }

    fn uncounted(&self) -> Result<u64, Error> {
        let value = map(&self.object, "seen")?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(refusal)?;
        Ok(value.map_or(0, |value| plain::<SeenWords>(&value).uncounted))
    }
}

/// Has the program look again whose each task is, by `roots`, too, if they are `allowed`.
fn look_again(object: &Object, allowed: bool) -> Result<(), Error> {
    let map = map(object, "seen")?;
    let key = 0u32.to_ne_bytes();
    let mut value = map.lookup(&key, MapFlags::ANY).map_err(refusal)?.unwrap_or_default();
    let generation = plain::<SeenWords>(&value).generation + 1;
    let mut put = |at: usize, word: u64| value[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    put(std::mem::offset_of!(SeenWords, has_roots), allowed.into());
    put(std::mem::offset_of!(SeenWords, generation), generation);
    map.update(&key, &value, MapFlags::ANY).map_err(refusal)
}

/// How long a call takes that does nothing.
fn try_calls() -> RealDuration {
    let round = || {
        let begun = host::now();
        for _ in 0..TRIED {
            // Asked of the kernel each time.
            std::hint::black_box(rustix::process::getppid());
        }
        host::now().since(begun).as_nanos() / u64::from(TRIED)
    };
    RealDuration::from_nanos((0..ROUNDS).map(|_| round()).min().unwrap_or(0))
}

fn refusal(e: libbpf_rs::Error) -> Error {
    Error::Bpf(bpf::refused(e))
}

fn map<'o>(object: &'o Object, name: &str) -> Result<MapImpl<'o>, Error> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    found.ok_or_else(|| Error::Bpf(format!("its compiled program has no map `{name}`")))
}

/// All entries of a map; what is added while it is read may be among them, or not.
fn read_all<T>(map: &MapImpl<'_>, read: impl Fn(&[u8], &[u8]) -> T) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    for (key, value) in map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY).map_err(refusal)? {
        all.push(read(&key, &value));
    }
    Ok(all)
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A record of words out of a value; what the value lacks is 0.
fn plain<T: Copy + Default>(value: &[u8]) -> T {
    let mut words = T::default();
    let length = value.len().min(size_of::<T>());
    // SAFETY: T is one of the records above, of integers only, for which any bytes will do; `length` is within both.
    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), (&raw mut words).cast(), length) };
    words
}
