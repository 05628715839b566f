//! Counters of this machine during a run, beside those of the emulator.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use clock::{ClockReading, Prober, clock_error_ppm};
use cpu::caches::{Sampler, Staleness};
use host::foreign::Foreign;
use net::Observation;
use scale::{Tdf, VirtualDuration};
use site::{NodeIndex, Sample};

use super::Prepared;
use super::clock::Dilation;
use super::disks::NodeDisks;
use super::senders::Senders;
use crate::error::{Error, Result};
use crate::registry::Registration;

/// Counters that are read while the clock runs.
pub struct Counters {
    foreign: Foreign,
    /// Reads the nodes' clock; none in real time.
    probe: Option<Result<Probe, String>>,
    /// How long each of the nodes' cores remembers data.
    caches: Vec<(usize, Sampler)>,
    /// Looks for senders that wait for an acknowledgement; nobody in real time, in which they wait as long as they
    /// should.
    senders: Option<Senders>,
}

/// Results that only the end of counting tells.
pub struct Last {
    /// How far off the rate of the nodes' clocks was, or why that is not known; `None` in real time.
    pub clock_error_ppm: Option<Result<f64, String>>,
    /// Forgetfulness of each core's caches, where that was measured.
    pub caches: Vec<(usize, Staleness)>,
}

impl Counters {
    /// Starts to count, at virtual zero.
    pub fn begin(prepared: &Prepared, registration: &Registration) -> Result<Counters> {
        let tdf = prepared.setup.tdf;
        let senders = (tdf != Tdf::ONE).then(|| Senders::start(prepared.namespaces.all().to_vec(), tdf)).transpose()?;
        let probe = |d| Probe::start(d, registration.state_dir()).map_err(|e| e.to_string());
        Ok(Counters {
            foreign: Foreign::new(registration.groups()?, prepared.disks.iter().map(NodeDisks::pid).collect()),
            probe: prepared.dilation.as_deref().map(probe),
            caches: samplers(prepared),
            senders,
        })
    }

    /// All counters, beside this observation of the network.
    pub fn sample(&mut self, network: Observation, prepared: &mut Prepared) -> Result<Sample> {
        // Nodes that were on a core that is gone are on others: there is no model any more.
        host::cores::on_line(&prepared.setup.cores.all())?;
        let cpu = prepared.shares.sample()?;
        let foreign = self.foreign.list(cpu.at);
        let ticks = host::stat::core_ticks()?;
        let mut tcp = prepared.namespaces.tcp_counters();
        let looks = 1 + self.senders.as_ref().map_or(0, |senders| senders.add_to(&mut tcp));
        let (disks, serving) = prepared.disks.as_mut().map_or(Ok(Default::default()), NodeDisks::count)?;
        let of_node = |(index, _): &(NodeIndex, _)| {
            let node = prepared.setup.nodes.get(*index)?;
            Some((*index, host::storage::read_by_group(&prepared.shares.container_path(&node.name))?))
        };
        let device_reads = disks.iter().filter_map(of_node).collect();
        let (own, cores_lost) = (host::time::of_this_process() + serving, prepared.shares.lost_cores());
        Ok(Sample {
            network,
            cpu,
            ticks,
            tcp,
            foreign,
            own,
            cores_lost,
            disks,
            device_reads,
            looks,
            read_again: prepared.idle_memory.pages_read_again(),
            commands: [0; 2],
        })
    }

    /// Ends counting.
    pub fn finish(self, tdf: Tdf) -> Last {
        let error = |probe: Result<Probe, String>| probe?.error_ppm(tdf).map_err(|e| e.to_string());
        let found = self.caches.into_iter().filter_map(|(core, sampler)| Some((core, sampler.finish()?)));
        Last { caches: found.collect(), clock_error_ppm: self.probe.map(error) }
    }
}

/// Where a run is not dilated, they tell what coming back to data costs after other nodes' timeslices.
fn samplers(prepared: &Prepared) -> Vec<(usize, Sampler)> {
    let Prepared { setup, shares, .. } = prepared;
    let virtual_ms = setup.tdf.to_real(VirtualDuration::from_nanos(1_000_000));
    // Where none can be started, the check is null.
    let start = |core: &usize| Some((*core, shares.sampler(*core, virtual_ms).ok()?));
    setup.cores.nodes.iter().filter_map(start).collect()
}

/// A dilated process under the run's clock that reads its clock when asked.
struct Probe {
    prober: Prober<ChildStdin, ChildStdout>,
    child: Child,
    first: ClockReading,
}

impl Probe {
    fn start(dilation: &Dilation, state: &Path) -> Result<Probe> {
        let why = || Error::io("the clock prober");
        let launcher = launcher(state)?;
        let exec = clock::dilate_exec_file()?;
        let admitted = dilation.admit_outsider()?;
        let mut command = clock::launch(exec.as_fd(), admitted, [launcher.as_os_str(), "--probe".as_ref()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(why())?;
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut prober = Prober::new(input, output);
        let first = prober.read()?;
        Ok(Probe { prober, child, first })
    }

    fn error_ppm(mut self, tdf: Tdf) -> Result<f64> {
        let last = self.prober.read()?;
        // Its input ends here, and so does it.
        drop(self.prober);
        clock::wait(&mut self.child).map_err(Error::io("the clock prober"))?;
        Ok(clock_error_ppm(self.first, last, tdf))
    }
}

/// The launcher of dilated programs as a file outside the nodes, for processes of the engine's own.
fn launcher(state: &Path) -> Result<PathBuf> {
    let path = state.join("dilate-exec");
    let write = || -> io::Result<()> {
        fs::write(&path, clock::DILATE_EXEC)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))
    };
    write().map_err(Error::file(&path, "write"))?;
    Ok(path)
}
