//! A plan for people: target and harness side by side.

use std::fmt::Write;

use host::cores::{listed, named};
use model::{Experiment, Speed};
use record::Variant;
use record::plan::{Congestion, CpuMode, LossModel, PipeValues, PlannedNode, PlannedPipe};
use scale::link::Distribution;
use scale::{
    INITIAL_RTO, KernelTimer, RealDuration, RealRate, Tdf, VirtualDuration, VirtualInstant, VirtualRate, initial_rto,
    stuck_timers,
};

use super::Plan;

impl Plan {
    /// The plan as `diorama check` prints it: what every node and link of the experiment that it was made of gets, and
    /// which timers of their kernels are not as on the target. [`Plan::recorded`] has the same for programs.
    pub fn to_text(&self, experiment: &Experiment) -> String {
        self.text(experiment, false)
    }

    /// As [`Plan::to_text`], with all timers of the nodes' kernels.
    pub fn to_verbose_text(&self, experiment: &Experiment) -> String {
        self.text(experiment, true)
    }

    fn text(&self, experiment: &Experiment, verbose: bool) -> String {
        let mut text = head(experiment, self);
        text.push('\n');
        text.push_str(&nodes(experiment, self));
        if !self.pipes.is_empty() {
            text.push('\n');
            text.push_str(&links(experiment, self));
            text.push_str(&routes(experiment));
        }
        text.push('\n');
        text.push_str(&timers(self, verbose));
        if !self.warnings.is_empty() {
            text.push('\n');
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        text
    }
}

fn head(experiment: &Experiment, plan: &Plan) -> String {
    let limit = experiment.ends.limit.since(VirtualInstant::ZERO);
    let lasts = match experiment.ends.never {
        true => "lasts until it is ended".to_string(),
        false => format!("lasts at most {limit} of virtual time, {} of real time", plan.tdf.to_real(limit)),
    };
    format!(
        "{} {}: TDF {}, {} nodes on {}, emulator and engine on {}\n{lasts}\n",
        plan.experiment,
        plan.variant,
        plan.tdf,
        plan.nodes.len(),
        named(&plan.cores.nodes),
        named(&plan.cores.harness),
    )
}

fn nodes(experiment: &Experiment, plan: &Plan) -> String {
    let share = match plan.variant {
        Variant::Naive => "weight in the pool",
        Variant::Native => "of whole cores",
        _ if plan.cores.nodes.len() > 1 => "share of its core",
        _ => "share of the core",
    };
    let with_disks = plan.nodes.values().any(|node| node.disk.is_some());
    let mut rows = Vec::new();
    for node in &experiment.nodes {
        let (machine, planned) = (&experiment.machines[node.machine], &plan.nodes[&node.name]);
        rows.push(Row {
            name: node.name.clone(),
            cells: vec![
                match machine.speed {
                    Speed::OfHost(fraction) => format!("{} at {fraction}", cpus(machine.cpus)),
                    Speed::Absolute(units) => format!("{} at {units} units/us", cpus(machine.cpus)),
                },
                percent(planned.share),
                bytes(planned.memory_bytes),
                match planned.congestion {
                    Congestion::Cubic => "cubic".into(),
                    Congestion::Reno => "reno".into(),
                },
            ]
            .into_iter()
            .chain(with_disks.then(|| match &planned.disk {
                Some(disk) => format!("{}, {}", disk.like, bytes(disk.bytes)),
                None => "–".into(),
            }))
            .collect(),
            last: planned.addresses.iter().map(|a| a.to_string()).collect::<Vec<_>>().join(", "),
        });
    }
    let heads = ["node", "target", share, "memory", "congestion"].into_iter();
    let heads: Vec<&str> = heads.chain(with_disks.then_some("disk")).chain(["addresses"]).collect();
    let mut text = table(&heads, rows);
    let usable = percent(cpu::PLANNED_USABLE);
    let many = plan.cores.nodes.len() > 1;
    let one = if many { "a" } else { "the" };
    let _ = match plan.pool_cap() {
        None if plan.variant == Variant::Native => {
            writeln!(text, "all nodes: a whole core for each CPU, and the kernel's own clock")
        }
        Some(cap) => writeln!(text, "all nodes share a pool of {} of {one} core, whoever wants it", percent(cap)),
        None if many => {
            writeln!(text, "all nodes: {} of a core, on {} cores", percent(plan.sold), plan.cores.nodes.len())
        }
        None => writeln!(text, "all nodes: {} of the core, of which {usable} can be sold", percent(plan.sold)),
    };
    if plan.variant == Variant::Native {
        text.push_str(&whole_cores(plan));
    } else if many {
        text.push_str(&packing(plan, &usable));
    }
    text.push_str(&sharing(plan));
    if let Some(most) = plan.processes {
        let _ =
            writeln!(text, "all nodes: {most} processes and threads, a quarter of what this machine has numbers for");
    }
    text
}

/// Which cores each node has to itself, and what holds back those that are slower.
fn whole_cores(plan: &Plan) -> String {
    let row = |(name, node): (&String, &PlannedNode)| {
        let held = if node.is_slower_than_its_cores() {
            format!("CFS quota of {} of a core", percent(node.share))
        } else {
            "–".into()
        };
        Row { name: name.clone(), cells: vec![listed(&node.whole_cores), held], last: String::new() }
    };
    table(&["node", "its cores", "held back by", ""], plan.nodes.iter().map(row).collect())
}

/// The cores, what each gives, and to whom.
fn packing(plan: &Plan, usable: &str) -> String {
    const NAMED: usize = 6;
    let row = |(core, sold): (usize, f64)| {
        let on: Vec<&str> = plan.nodes.iter().filter(|(_, n)| n.core == core).map(|(name, _)| name.as_str()).collect();
        let mut names = on.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        if on.len() > NAMED {
            names += &format!(" and {} more", on.len() - NAMED);
        }
        Row { name: core.to_string(), cells: vec![percent(sold), on.len().to_string(), names], last: String::new() }
    };
    let rows = plan.sold_by_core().into_iter().map(row).collect();
    table(&["core", &format!("sold, of {usable}"), "nodes", "which", ""], rows)
}

/// How nodes share the core; empty where they share a pool.
fn sharing(plan: &Plan) -> String {
    let (Some(_), Some(planned)) = (plan.recorded().timeslice, plan.cpu) else { return String::new() };
    let (length, lead) = (plan.terms.slice, plan.slice.lead);
    let mut text = format!(
        "slices of {length} of real time: in one, the clock of the slowest node gets ahead of the run's by {lead} of \
         virtual time at most\n"
    );
    let usual = planned.reference_units_per_us.map_or("not known".to_owned(), |units| format!("{units:.1} units/us"));
    let _ = match (planned.mode, planned.gain) {
        (CpuMode::Work, Some(gain)) => writeln!(
            text,
            "shares of work: of what {} usually does, {usual}; it may slow down to {:.0} % of that (room for \
             {:.2} times the shares, gain {gain})",
            if plan.cores.nodes.len() > 1 { "a core" } else { "the core" },
            100.0 * super::sharing::slowest_core(planned.headroom, gain),
            planned.headroom
        ),
        _ => writeln!(text, "shares of time, whatever work the core does in it (usually {usual})"),
    };
    if let Some(rounding) = planned.rounding {
        let _ = writeln!(
            text,
            "weights of the kernel, which are integers, round no share by more than {}",
            percent(rounding)
        );
    }
    text
}

fn links(experiment: &Experiment, plan: &Plan) -> String {
    let dilated = plan.tdf != Tdf::ONE;
    let mut rows = Vec::new();
    let mut each_way = true;
    for link in &experiment.links {
        let of = |pipe: &str| (format!("{}/{pipe}", link.name), &plan.pipes[&format!("{}/{pipe}", link.name)]);
        let directions = [(of("ab"), link.ab.up), (of("ba"), link.ba.up)];
        let alike = link.ab == link.ba;
        each_way &= alike;
        let mtu = (link.mtu != net::DEFAULT_MTU).then(|| format!("MTU {}", link.mtu));
        for ((pipe, PlannedPipe { target, harness, .. }), up) in directions.into_iter().take(if alike { 1 } else { 2 })
        {
            let mut cells = vec![rate(target, false), delay(target, false)];
            if dilated {
                cells.extend([rate(harness, true), delay(harness, true)]);
            }
            cells.extend([harm(target), queue(target)]);
            let down = (!up).then(|| "down at the start".to_owned());
            let single = (!link.tso).then(|| "no bursts".to_owned());
            let last = mtu.clone().into_iter().chain(single).chain(down).collect::<Vec<_>>().join(", ");
            let name = if alike { link.name.clone() } else { pipe };
            rows.push(Row { name, cells, last });
        }
    }
    let first = if each_way { "link, each way" } else { "link, each way, or pipe" };
    let mut heads = vec![first, "target: bandwidth", "delay"];
    if dilated {
        heads.extend(["harness: bandwidth", "delay"]);
    }
    heads.extend(["loss", "queue", ""]);
    table(&heads, rows)
}

/// The given routes; all others are the shortest.
fn routes(experiment: &Experiment) -> String {
    let row = |r: &model::Route| {
        let links: Vec<&str> = r.links.iter().map(|l| experiment.links[*l].name.as_str()).collect();
        let [from, to] = [r.from, r.to].map(|n| &experiment.nodes[n].name);
        Row { name: format!("{from} to {to}"), cells: vec![links.join(", ")], last: String::new() }
    };
    match experiment.routes.as_slice() {
        [] => String::new(),
        given => format!("\n{}", table(&["route", "given: by links", ""], given.iter().map(row).collect())),
    }
}

fn rate(pipe: &PipeValues, real: bool) -> String {
    match pipe.bits_per_s {
        None => "unlimited".into(),
        Some(bits) if real => RealRate::from_bits_per_s(bits).to_string(),
        Some(bits) => VirtualRate::from_bits_per_s(bits).to_string(),
    }
}

fn delay(pipe: &PipeValues, real: bool) -> String {
    let time = |s| match real {
        true => RealDuration::from_secs_f64(s).to_string(),
        false => VirtualDuration::from_secs_f64(s).to_string(),
    };
    let mean = time(pipe.delay_s);
    let Some(jitter) = &pipe.jitter else { return mean };
    let shape = match jitter.distribution {
        Distribution::Uniform => String::new(),
        other => format!(" {}", other.name()),
    };
    let order = if jitter.reorder { ", reorders" } else { "" };
    format!("{mean} ± {}{shape}{order}", time(jitter.spread_s))
}

/// Loss, duplication and limits of a pipe's queue.
fn harm(pipe: &PipeValues) -> String {
    let mut text = match &pipe.loss_model {
        None => percent(pipe.loss),
        Some(LossModel::GilbertElliott { .. }) => format!("{} in bursts", percent(pipe.loss)),
        Some(LossModel::Every(k)) => format!("1 in {k}"),
        Some(LossModel::Packets(list)) => match list.as_slice() {
            [] => "none".into(),
            [only] => format!("packet {only}"),
            [first, ..] => format!("{} packets from {first}", list.len()),
        },
    };
    if pipe.duplicate > 0.0 {
        text += &format!(", {} twice", percent(pipe.duplicate));
    }
    if pipe.corrupt > 0.0 {
        text += &format!(", {} damaged", percent(pipe.corrupt));
    }
    text
}

fn queue(pipe: &PipeValues) -> String {
    let most = match (pipe.queue_packets, pipe.queue_bytes) {
        (Some(n), _) => format!("{n} packets"),
        (None, n) => bytes(n.unwrap_or(0)),
    };
    match &pipe.red {
        None => most,
        Some(red) => format!("RED {} to {} of {most}", red.min, red.max),
    }
}

/// The timers of a node's kernel; all nodes have the same. *Exact*: as on the target, for it follows
/// from measured round trips or is not dilated. *Scaled*: set to what it has to be. *Short*: scaled as far as the
/// kernel allows. *Stuck*: in real time. Unless `verbose`, only of the last two.
fn timers(plan: &Plan, verbose: bool) -> String {
    let tdf = plan.tdf;
    if tdf == Tdf::ONE {
        return "kernel timers: all exact, for time is not dilated\n".into();
    }
    let (mut rows, mut kept) = (Vec::new(), 0);
    let mut row = |name: &str, how: &str, target: String, harness: String, says: String| {
        if ["exact", "scaled"].contains(&how) && !verbose {
            kept += 1;
            return;
        }
        rows.push(Row { name: name.to_owned(), cells: vec![how.to_owned(), target, harness], last: says });
    };
    let none = String::new;
    row("retransmission after a round trip was measured", "exact", none(), none(), "follows from round trips".into());
    for congestion in [Congestion::Cubic, Congestion::Reno] {
        let who: Vec<_> =
            plan.nodes.iter().filter(|(_, n)| n.congestion == congestion).map(|(n, _)| n.as_str()).collect();
        let (Some(first), Some(last)) = (who.first(), who.last()) else { continue };
        let who = if first == last { (*first).to_owned() } else { format!("{first} … {last}") };
        match congestion {
            Congestion::Cubic => {
                row("growth by CUBIC", "scaled", none(), none(), format!("its clock is virtual ({who})"))
            }
            Congestion::Reno => {
                row("growth by Reno", "exact", none(), none(), format!("follows from round trips ({who})"))
            }
        }
    }
    if plan.offers.initial_timeout {
        let timeout = initial_rto(tdf);
        let (how, says) = match timeout.wanted {
            None => ("scaled", String::new()),
            Some(wanted) => ("short", format!("{wanted} would be needed, the kernel allows no more")),
        };
        row("initial retransmission time-out", how, INITIAL_RTO.to_string(), timeout.harness.to_string(), says);
    }
    for t in KernelTimer::of_namespace(tdf).into_iter().chain(KernelTimer::of_device(tdf)) {
        let (how, says) = match t.wanted {
            None => ("scaled", String::new()),
            Some(w) => ("short", format!("{} would be needed, the kernel allows no more", with_unit(w, t.unit))),
        };
        let name = t.setting.trim_start_matches("ipv4/");
        row(name, how, with_unit(t.target, t.unit), with_unit(t.harness, t.unit), says);
    }
    for t in stuck_timers(plan.offers.initial_timeout) {
        let says = format!("nodes see {}: {}", tdf.to_virtual(t.real), t.effect);
        row(t.name, "stuck", t.real.to_string(), t.real.to_string(), says);
    }
    let mut text = table(&["kernel timer, in every node", "how", "target", "harness", ""], rows);
    if kept > 0 {
        let _ = writeln!(text, "{kept} more are as on the target: --verbose lists them");
    }
    text
}

fn with_unit(value: u64, unit: &str) -> String {
    match unit.strip_prefix('1') {
        Some(rest) => format!("{value}{rest}"),
        None => format!("{value}{unit}"),
    }
}

/// `1 CPU`, `4 CPUs`
pub(super) fn cpus(count: u32) -> String {
    if count == 1 { "1 CPU".into() } else { format!("{count} CPUs") }
}

fn percent(fraction: f64) -> String {
    let text = format!("{:.3}", fraction * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    // A loss of one in a million is not none.
    if text == "0" && fraction > 0.0 { format!("{:e}%", fraction * 100.0) } else { format!("{text}%") }
}

fn bytes(n: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, size)| n.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", n / size),
        None => format!("{n}B"),
    }
}

/// A line of a table. Lines in a row whose `cells` are equal become one.
struct Row {
    name: String,
    cells: Vec<String>,
    /// Differs among equals, so only the first and the last are shown.
    last: String,
}

fn table(heads: &[&str], rows: Vec<Row>) -> String {
    let mut lines: Vec<Vec<String>> = vec![heads.iter().map(|h| (*h).to_owned()).collect()];
    let mut rest = rows.as_slice();
    while let Some(first) = rest.first() {
        let alike = rest.iter().take_while(|r| r.cells == first.cells).count();
        // Two lines are no longer than one that stands for two.
        let alike = if alike < 3 { 1 } else { alike };
        let end = &rest[alike - 1];
        let both = |a: &str, b: &str| if a == b { a.to_owned() } else { format!("{a} … {b}") };
        let mut line = vec![both(&first.name, &end.name)];
        line.extend(first.cells.iter().cloned());
        line.push(both(&first.last, &end.last));
        lines.push(line);
        rest = &rest[alike..];
    }
    let columns = heads.len();
    let width = |c: usize| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
