//! The run's clock, and what dilates the programs that start in its nodes.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use clock::{ClockPage, Earlier, Injector, Stretch, VirtualCpu};
use counters::UntrueSetting;
use host::node_clock::{DateOff, NodeClock};
use scale::VirtualInstant;
use site::{ClockChange, Continues, Injections, NodeIndex, Part, Setup, Zero};

use crate::error::{Error, Result};

/// The clock of a dilated run.
pub struct Dilation {
    injector: Injector,
    page: ClockPage,
    /// Node by node, its name and the CPU that its programs believe to have.
    cpus: Vec<(String, VirtualCpu)>,
    /// Node by node, the clock that its programs live by; empty where they live by the run's.
    clocks: Vec<NodeClock>,
    /// By how much dates of nodes are off.
    dates: Mutex<HashMap<NodeIndex, DateOff>>,
    /// How long they keep their core.
    slice_ns: String,
}

impl Dilation {
    /// The clock of this run, stopped; none if the run takes place in real time. `clocks` are those of the nodes,
    /// or none.
    pub fn of(setup: &Setup, clocks: &[NodeClock]) -> Result<Option<Dilation>> {
        if !setup.dilated {
            return Ok(None);
        }
        let page = ClockPage::new(setup.tdf)?;
        let injector = Injector::start(&page, super::only(setup), |what| host::warn(what))?;
        let mut cpus = Vec::new();
        for node in &setup.nodes {
            let cpu = VirtualCpu::speed(node.cpu_clock_divisor)?.on_one_core().with_cpus(node.cpus);
            cpus.push((node.name.clone(), if node.dilated_tsc { cpu.with_dilated_tsc() } else { cpu }));
        }
        Ok(Some(Dilation {
            injector,
            page,
            cpus,
            clocks: clocks.to_vec(),
            dates: Mutex::default(),
            slice_ns: setup.terms.slice.as_nanos().to_string(),
        }))
    }

    /// Virtual zero is now, or the virtual time at which an earlier run ended.
    pub fn start(&self, continues: Option<&Continues>) -> Zero {
        let Some(Continues { at, zero_unix_ns, parts }) = continues else {
            let zero = self.page.start();
            return Zero { real: zero.real, from: VirtualInstant::ZERO, unix_ns: zero.unix_ns };
        };
        let stretches = parts.iter().map(|Part { real, virt }| Stretch { real: *real, virt: *virt });
        let earlier = Earlier { unix_ns: zero_unix_ns + at.as_nanos(), stretches: stretches.collect() };
        Zero { real: self.page.start_from(Some(&earlier)).real, from: *at, unix_ns: *zero_unix_ns }
    }

    /// Sets the date of a node off against the others', from now on.
    pub fn change_clock(&self, node: NodeIndex, change: ClockChange) -> Result<()> {
        let Some(clock) = self.clocks.get(node) else {
            return Err(Error::machine(
                "a node's clock cannot be set off here: there are no clocks of nodes",
                "`diorama doctor` says why",
            ));
        };
        let mut dates = self.dates.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.page.monotonic();
        let before = dates.get(&node).copied().unwrap_or_default();
        let so_far = before.at(now);
        let offset_ns = change.offset_ns.unwrap_or(so_far);
        // Its kernel may date a file by its last tick, and the node may have waited for its core: both are before now.
        let earlier = if change.from_start { offset_ns } else { so_far };
        let off = DateOff { offset_ns, drift: change.drift.unwrap_or(before.drift), since_ns: now };
        clock.set_date_off(off, earlier);
        dates.insert(node, off);
        Ok(())
    }

    /// The command line that dilates `argv` in a node.
    pub fn command(&self, argv: &[String]) -> Vec<String> {
        launched(&self.how(None), argv)
    }

    /// The command line that dilates a node's program: it does nothing until a byte comes from descriptor `gate`.
    pub fn waiting(&self, gate: usize, argv: &[String]) -> Vec<String> {
        launched(&self.how(Some(&gate.to_string())), argv)
    }

    /// The options of `dilate-exec`: `gate` is the descriptor that it waits for.
    fn how<'a>(&'a self, gate: Option<&'a str>) -> Vec<&'a str> {
        let waits = gate.into_iter().flat_map(|gate| ["--wait", gate]);
        // Only a node with a clock of its own is ahead of the run's when it looks for what has come.
        let looks = (!self.clocks.is_empty()).then_some("--looks");
        waits.chain(["--slice", &self.slice_ns]).chain(looks).chain(["--"]).collect()
    }

    /// The socket that must become descriptor 3 of a program that starts in a node, for it to be dilated.
    pub fn admit(&self, node: NodeIndex) -> Result<OwnedFd> {
        let (name, cpu) = &self.cpus[node];
        Ok(self.injector.admit_as(name, *cpu, self.clocks.get(node))?)
    }

    /// The socket for a process outside the nodes that is to run under the run's clock.
    pub fn admit_outsider(&self) -> Result<OwnedFd> {
        Ok(self.injector.admit(VirtualCpu::NATIVE)?)
    }

    /// Counts of the injector.
    pub fn injections(&self) -> Injections {
        let counters = self.injector.counters();
        let untrue = self.injector.untrue_settings().into_iter().map(|setting| UntrueSetting {
            node: setting.of,
            what: setting.what,
            cut: setting.how == clock::Untrue::Cut,
        });
        let untrue_settings = untrue.collect();
        Injections { dilated: counters.injected, refused: counters.refused, untrue_settings }
    }
}

/// Virtual zero of a run in real time: now.
pub fn native_zero() -> Zero {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Zero { real: host::now(), from: VirtualInstant::ZERO, unix_ns: unix.as_nanos() as u64 }
}

/// The command line of an undilated node's program: it does nothing until a byte comes from descriptor `gate`.
pub fn waiting(gate: usize, argv: &[String]) -> Vec<String> {
    launched(&["--wait", &gate.to_string(), "--native", "--"], argv)
}

fn launched(how: &[&str], argv: &[String]) -> Vec<String> {
    let how = how.iter().map(|word| word.to_string());
    std::iter::once(clock::DILATE_EXEC_PATH.into()).chain(how).chain(argv.iter().cloned()).collect()
}
