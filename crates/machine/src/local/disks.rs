//! The disks of the nodes, and the process that serves them.

use std::path::PathBuf;

use counters::DiskCounters;
use cpu::NodeClocks;
use device::{Change, Cut, DiskSetup, Disks};
use host::writeback::Writeback;
use node::{Enclosure, NodeDisk};
use scale::{JournalTimes, RealDuration, RealInstant, Tdf, page_cache_time};
use site::{DiskConditions, NodeIndex, OtherWriteback, Setup};

use crate::error::{Error, Result};
use crate::registry::Registration;

/// The disks of those nodes that have one.
pub struct NodeDisks {
    nodes: Vec<NodeIndex>,
    disks: Disks,
    tdf: Tdf,
    /// That the machine's kernel writes back as the target's would, or why it does not.
    writeback: Result<Writeback, OtherWriteback>,
}

impl NodeDisks {
    /// Makes them; none, and no process, if no node has one. They take no time yet.
    /// `clocks` are the nodes' own, if they have any.
    pub fn make(
        setup: &Setup,
        enclosure: &Enclosure,
        registration: &Registration,
        clocks: Option<&NodeClocks>,
    ) -> Result<Option<NodeDisks>> {
        let with = |(index, node): (NodeIndex, &site::NodeSetup)| {
            // Chance on each disk is its own.
            let seed = setup.seed.wrapping_add(index as u64);
            let parameters = node.disk.clone()?;
            let site::NodeSetup { may_lose_power, durable, .. } = *node;
            let clock = clocks.map(|clocks| clocks.number(index));
            Some((index, DiskSetup { name: node.name.clone(), parameters, seed, may_lose_power, durable, clock }))
        };
        let (nodes, setups): (Vec<_>, Vec<_>) = setup.nodes.iter().enumerate().filter_map(with).unzip();
        if nodes.is_empty() {
            return Ok(None);
        }
        // Alone in its session, it can keep cores awake without taking them from the kernel's threads.
        let process = enclosure.spawn_in_session(Disks::command())?;
        let asker = setup.cores.nodes.first().copied();
        let disks = Disks::make(process, &registration.disks_dir(), &setups, None, asker)?;
        let tdf = setup.tdf;
        let writeback = Writeback::take(&registration.id, |usually| page_cache_time(tdf, usually));
        let other = |e: host::Error| {
            let now = host::writeback::age().unwrap_or(RealDuration::ZERO);
            OtherWriteback { because: e.to_string(), from: now.min(page_cache_time(tdf, host::writeback::USUAL_AGE)) }
        };
        Ok(Some(NodeDisks { nodes, disks, tdf, writeback: writeback.map_err(other) }))
    }

    /// How requests come to the process, and when the kernel makes some of its own accord.
    pub fn conditions(&self) -> DiskConditions {
        DiskConditions {
            over: self.disks.transport(),
            because: self.disks.because().map(str::to_owned),
            writeback: self.writeback.as_ref().map(Writeback::changes).map_err(OtherWriteback::clone),
        }
    }

    /// The disk of a node, if it has one.
    pub fn of(&self, node: NodeIndex) -> Option<NodeDisk> {
        let place = self.nodes.iter().position(|n| *n == node)?;
        let device: PathBuf = self.disks.devices().get(place)?.clone();
        let JournalTimes { commit_s, batch_us } = JournalTimes::at(self.tdf);
        let options = format!("{},commit={commit_s},max_batch_time={batch_us}", device::QUIET);
        Some(NodeDisk { device, options })
    }

    /// That all nodes have mounted theirs.
    pub fn mounted(&mut self) -> Result<()> {
        Ok(self.disks.let_go(false)?)
    }

    /// That nobody will mount any of them once more.
    pub fn ending(&mut self) -> Result<()> {
        self.disks.pass()?;
        Ok(self.disks.let_go(true)?)
    }

    /// From now on they take the time that their models say.
    pub fn begin(&mut self, zero: RealInstant) -> Result<()> {
        Ok(self.disks.begin(zero, self.tdf)?)
    }

    /// Has something happen to the disk of a node.
    pub fn change(&mut self, node: NodeIndex, change: Change) -> Result<Cut> {
        Ok(self.disks.change(self.place_of(node)?, change)?)
    }

    /// Has the disk of a node, which nobody uses any more, be there again after a power cut, for what `mount` does: it
    /// takes no time.
    pub fn mount_again<R>(&mut self, node: NodeIndex, mount: impl FnOnce() -> Result<R>) -> Result<R> {
        let disk = self.place_of(node)?;
        device::await_unmounted(&self.disks.devices()[disk])?;
        self.disks.change(disk, Change::PowerOn)?;
        let mounted = mount()?;
        self.disks.change(disk, Change::Resume)?;
        Ok(mounted)
    }

    fn place_of(&self, node: NodeIndex) -> Result<usize> {
        let place = self.nodes.iter().position(|n| *n == node);
        place.ok_or_else(|| Error::SiteLost(format!("node {node} has no disk to which something could happen")))
    }

    /// From now on they take none.
    pub fn pass(&mut self) -> Result<()> {
        Ok(self.disks.pass()?)
    }

    /// Reads the counters, and the CPU time of the process.
    pub fn count(&mut self) -> Result<(Vec<(NodeIndex, DiskCounters)>, RealDuration)> {
        let counted = self.disks.count()?;
        Ok((self.nodes.iter().copied().zip(counted.disks).collect(), counted.cpu))
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.disks.pid()
    }
}
