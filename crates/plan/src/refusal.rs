//! Why an experiment cannot be run as it is written.

use record::Variant;
use scale::{RealDuration, RealRate, Tdf, Timeslice, VirtualDuration};

/// Reasons against a plan: the harness could not keep to it, or it contradicts itself. Each says what would be right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A TDF was given for a variant that runs in real time.
    #[error("--tdf cannot be given with the {0} variant, which runs at TDF 1: leave it out, or use --variant scaled")]
    TdfOfVariant(Variant),
    /// The nodes want more of the cores than a plan may sell, or cannot be placed on them.
    #[error(
        "{experiment}: at TDF {tdf} the nodes ask for {sold:.3} of {}: {by_group}{}; {}{}",
        of_cores(*cores),
        reference.map(|usual| format!(" (a core of this host usually does {usual:.1} units/us)")).unwrap_or_default(),
        does_not_fit(*cores, *sold, too_large.as_deref()),
        too_much_cpu(*variant, *cores, *several, *fits)
    )]
    TooMuchCpu {
        /// The experiment.
        experiment: String,
        /// Which variant of it.
        variant: Variant,
        /// By which the shares were divided.
        tdf: Tdf,
        /// The sum of the nodes' shares, in cores.
        sold: f64,
        /// How many cores there are for nodes.
        cores: usize,
        /// A node that is too large for any core.
        too_large: Option<String>,
        /// Whether a machine has several CPUs, which count together.
        several: bool,
        /// Who asks for how much.
        by_group: String,
        /// The usual speed of a core in units of work per µs, where speeds are in those.
        reference: Option<f64>,
        /// The smallest TDF that would fit.
        fits: Option<Tdf>,
    },
    /// The native variant has a core for each CPU, and there are too few.
    #[error(
        "{experiment}: the native variant needs a whole core for each CPU of its nodes, {wanted} in all, and \
         {cores} of this machine's can be for nodes: use a larger machine{}, or fewer nodes, or the baseline",
        if *cores > 1 { " (`--siblings` allows both threads of each core)" } else { "" }
    )]
    TooFewCores {
        /// The experiment.
        experiment: String,
        /// How many CPUs its nodes have together.
        wanted: usize,
        /// How many cores there are for nodes.
        cores: usize,
    },
    /// A CPU is faster than the core that it would be in the native variant.
    #[error(
        "{experiment}: a CPU of the node `{node}` is {speed} times as fast as a core of this host, and the native \
         variant has nothing faster than a core: lower its machine's speed to 1 or less, or use the scaled variant"
    )]
    FasterThanACore {
        /// The experiment.
        experiment: String,
        /// The node.
        node: String,
        /// The speed of its CPUs, in cores.
        speed: f64,
    },
    /// A node gets too little to be kept.
    #[error(
        "{experiment}: at TDF {tdf} the node `{node}` gets {share:.6} of a core, and less than {least} cannot be kept \
         exactly; {}",
        fits.map_or("give its machine a higher speed".into(), |fits| would_fit(*variant, fits))
    )]
    TooLittleCpu {
        /// The experiment.
        experiment: String,
        /// Which variant of it.
        variant: Variant,
        /// By which the shares were divided.
        tdf: Tdf,
        /// The node.
        node: String,
        /// Its share, in cores.
        share: f64,
        /// The least that can be kept, in cores.
        least: f64,
        /// The largest TDF that would leave it enough.
        fits: Option<Tdf>,
    },
    /// A bound from below and one from above that contradict each other.
    #[error("no TDF fits, for the nodes have room on the cores only from TDF {least} on, and there: {why}")]
    NoTdf {
        /// The smallest at which the nodes have room on the cores.
        least: Tdf,
        /// The reason there.
        why: Box<Refusal>,
    },
    /// An absolute speed is no speed that a node can have on this host.
    #[error(
        "{experiment}: the machine `{machine}` does {units} units/us, {:.4} times what a core of this host usually \
         does ({reference:.1} units/us); on this host a speed is {:.1} to {:.0} units/us",
        units / reference,
        possible[0],
        possible[1]
    )]
    Speed {
        /// The experiment.
        experiment: String,
        /// The class of hardware.
        machine: String,
        /// The speed that was asked for, in units of work per µs.
        units: f64,
        /// The speed of a core of this host.
        reference: f64,
        /// The least and the most that a node can do here.
        possible: [f64; 2],
    },
    /// Slices of the length that the lead asks for cannot be had.
    #[error(
        "{experiment}: for no clock to get ahead of the run's by more than the lead of {asked}, nodes would keep the \
         core for {length}, and slices last {} to {}; the nearest lead that can be had is {nearest} \
         (`lead: {nearest}`)",
        Timeslice::SHORTEST,
        Timeslice::LONGEST
    )]
    Grain {
        /// The experiment.
        experiment: String,
        /// The lead that was asked for.
        asked: VirtualDuration,
        /// How long slices would have to be.
        length: RealDuration,
        /// The nearest that can be had.
        nearest: VirtualDuration,
    },
    /// A round trip is so long that the kernel would take its segments for lost.
    #[error(
        "{experiment}: a round trip between `{}` and `{}` takes {rtt}, which at TDF {tdf} is {real} of real time; \
         above {bound} the kernel would send the first segment of every connection twice, because {}; {}, or shorten \
         the delays",
        between[0],
        between[1],
        if *scales_initial_timeout {
            "its time-outs end at 120 s"
        } else {
            "its initial time-out of 1 s cannot be scaled without BPF (see `diorama doctor`)"
        },
        fits.map_or("only TDF 1 would fit".into(), |fits| format!("a TDF of at most {fits} would fit"))
    )]
    RoundTripTooLong {
        /// The experiment.
        experiment: String,
        /// Between which nodes.
        between: [String; 2],
        /// How long it is.
        rtt: VirtualDuration,
        /// By which it was multiplied.
        tdf: Tdf,
        /// How long it is on the harness.
        real: RealDuration,
        /// The longest that would do.
        bound: RealDuration,
        /// Whether this machine scales the initial time-out.
        scales_initial_timeout: bool,
        /// The largest TDF that would fit.
        fits: Option<Tdf>,
    },
    /// A link is faster than an emulator could fill it.
    #[error(
        "{place}at TDF {tdf} the link `{link}` carries {} Gbit/s of real time, and the emulator, wherever it runs, \
         less than 100; {}, or leave its bandwidth out (in an event: `unlimited`) if nothing ever fills it",
        real.bits_per_s() / 1e9,
        match (variant, fits) {
            (Variant::Scaled, Some(fits)) => would_fit(*variant, *fits),
            _ => "make it slower".into(),
        }
    )]
    TooFast {
        /// Where it stands: `FILE:LINE: `, if that is known.
        place: String,
        /// The link.
        link: String,
        /// Which variant of the experiment.
        variant: Variant,
        /// By which its rate was divided.
        tdf: Tdf,
        /// How fast it would be.
        real: RealRate,
        /// The smallest TDF that would fit.
        fits: Option<Tdf>,
    },
    /// The emulator would refuse an event's change of a link.
    #[error("{experiment}: the event at {at_s} s: {reason}")]
    Event {
        /// The experiment.
        experiment: String,
        /// When the event is, in virtual s.
        at_s: f64,
        /// The fault in it.
        reason: String,
    },
}

impl Refusal {
    /// The smallest TDF at which the nodes have room on the cores, and links can be filled, where that is in the way.
    pub(super) fn least_tdf(&self) -> Option<Tdf> {
        match self {
            Refusal::TooMuchCpu { fits, .. } | Refusal::TooFast { fits, .. } => *fits,
            _ => None,
        }
    }

    /// The refusal without advice on the TDF, where another is no way out.
    pub(super) fn at_any_tdf(mut self) -> Refusal {
        if let Refusal::TooLittleCpu { fits, .. } | Refusal::RoundTripTooLong { fits, .. } = &mut self {
            *fits = None;
        }
        self
    }
}

/// `one core, of which a plan may sell 0.9`
fn of_cores(cores: usize) -> String {
    match cores {
        1 => format!("one core, of which a plan may sell {}", cpu::PLANNED_USABLE),
        _ => format!("{cores} cores, of each of which a plan may sell {}", cpu::PLANNED_USABLE),
    }
}

/// The obstacle, where it is not only that there is too little of all cores together.
fn does_not_fit(cores: usize, sold: f64, too_large: Option<&str>) -> String {
    match too_large {
        _ if cores == 1 => String::new(),
        Some(node) => format!("a node stays on one core, and `{node}` is too large for any; "),
        None if sold <= cores as f64 * cpu::PLANNED_USABLE => {
            "a node stays on one core, and they cannot be placed so that all fit; ".into()
        }
        None => String::new(),
    }
}

fn too_much_cpu(variant: Variant, cores: usize, several: bool, fits: Option<Tdf>) -> String {
    match (variant, fits) {
        (Variant::Baseline, _) => format!(
            "the baseline runs every node with its full share at TDF 1: lower the {} until they sum to at most {}\
             {}, or run the scaled variant only{}",
            if several { "speeds, each times its machine's `cpus`," } else { "speeds" },
            cpu::PLANNED_USABLE,
            if cores == 1 { "" } else { " on each core" },
            fits.map_or(String::new(), |tdf| format!(
                " (from TDF {tdf} on), or the native one where a core for each CPU is free"
            )),
        ),
        (_, Some(fits)) => would_fit(variant, fits),
        (_, None) => {
            format!("no TDF would fit: lower the speeds{} of the machines", if several { " or `cpus`" } else { "" })
        }
    }
}

fn would_fit(variant: Variant, tdf: Tdf) -> String {
    let option = if variant == Variant::Scaled { format!("`--tdf {tdf}`, or ") } else { String::new() };
    format!("a TDF of {tdf} would fit ({option}`tdf: {tdf}` in the experiment)")
}
