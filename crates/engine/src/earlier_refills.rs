//! What runs have learned of nodes' refills, kept for those after them.
//!
//! What a node loses at the start of its turns depends on the processor, on the program, on how long its turns are and
//! on what is done between them. So it is kept by [kind](Kind), and no baseline run begins with what a scaled one has
//! learned: its turns come sooner after each other, and others are between.

use std::time::{SystemTime, UNIX_EPOCH};

use cpu::refill::Learned;
use scale::{RealDuration, Tdf, Turns};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::host_speed::NAMELESS;
use crate::registry::STATE;
use crate::site::{NodeSetup, Setup};
use crate::state_file::StateFile;

const FILE: &str = "refills.json";

/// What [`Learned`] means. Raise it when the curves of `crates/cpu` become others, or what counts as progress: what was
/// kept is worth nothing then.
const ESTIMATOR: u32 = 1;

/// So many kinds are kept, those that were learned last.
const KINDS: usize = 200;

/// Shares are alike that are within about a tenth, turns within about a quarter.
const SHARE_STEP: f64 = 1.1;
const TURN_STEP: f64 = 1.25;

/// Nodes of which one may begin with what another has learned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kind {
    /// The model, as the kernel names it.
    processor: String,
    /// The experiment's name and that under which it describes the node.
    role: String,
    /// SHA-256 of the node's command, environment, working directory and root.
    runs: String,
    /// What lies between two turns of it: how slow time is, and that other programs' data are in the caches for longer
    /// then; a run that is not dilated is of another kind also at TDF 1.
    tdf: Tdf,
    dilated: bool,
    /// Logarithms of its share of the core and of its mean turn, in steps.
    share_step: i32,
    turn_step: i32,
}

impl Kind {
    fn of(setup: &Setup, node: &NodeSetup, processor: &str) -> Kind {
        let steps = |value: f64, step: f64| value.log(step).round() as i32;
        let NodeSetup { argv, env, cwd, root, .. } = node;
        let runs = serde_json::to_vec(&(argv, env, cwd, root)).unwrap_or_default();
        Kind {
            processor: processor.to_owned(),
            role: node.role.clone(),
            runs: Sha256::digest(runs).iter().map(|byte| format!("{byte:02x}")).collect(),
            tdf: setup.tdf,
            dilated: setup.dilated,
            share_step: steps(node.share, SHARE_STEP),
            turn_step: steps(turn_of(setup, node).as_secs_f64(), TURN_STEP),
        }
    }
}

fn turn_of(setup: &Setup, node: &NodeSetup) -> RealDuration {
    Turns::stretched(setup.terms.slice, node.stretch)
}

/// All of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    estimator: u32,
    /// Each kind once.
    kinds: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    kind: Kind,
    /// When, in seconds since 1970.
    unix_s: u64,
    learned: Learned,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { estimator: ESTIMATOR, kinds: Vec::new() }
    }
}

/// What an earlier run has learned of nodes of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    /// What.
    pub learned: Learned,
    /// How long ago.
    pub age: RealDuration,
}

/// What is known of this machine's nodes, and where it is kept.
#[derive(Clone, Debug)]
pub struct EarlierRefills {
    file: StateFile,
    processor: String,
}

impl EarlierRefills {
    /// This machine's.
    pub fn here() -> EarlierRefills {
        EarlierRefills::of(StateFile::new(STATE, FILE), host::cores::model())
    }

    fn of(file: StateFile, processor: Option<String>) -> EarlierRefills {
        EarlierRefills { file, processor: processor.unwrap_or_else(|| NAMELESS.into()) }
    }

    /// By node, what was learned of its kind. The error is why what was kept is of no use, as a sentence without its
    /// end; then nothing is known.
    pub fn known(&self, setup: &Setup) -> Result<Vec<Option<Earlier>>, String> {
        self.known_at(setup, now())
    }

    fn known_at(&self, setup: &Setup, unix_s: u64) -> Result<Vec<Option<Earlier>>, String> {
        let kept = self.read()?;
        let of = |node: &NodeSetup| {
            let kind = Kind::of(setup, node, &self.processor);
            let entry = kept.kinds.iter().find(|entry| entry.kind == kind && entry.learned.is_sane())?;
            // A date that is still to come is that of a clock that was wrong.
            let age = RealDuration::from_secs_f64(unix_s.saturating_sub(entry.unix_s) as f64);
            Some(Earlier { learned: entry.learned.clone(), age })
        };
        Ok(setup.nodes.iter().map(of).collect())
    }

    /// Keeps what was learned of each node. Of several of a kind, what is surest.
    pub fn keep(&self, setup: &Setup, learned: &[Option<Learned>]) -> Result<()> {
        self.keep_at(setup, learned, now())
    }

    fn keep_at(&self, setup: &Setup, learned: &[Option<Learned>], unix_s: u64) -> Result<()> {
        let mut fresh: Vec<(Entry, f64)> = Vec::new();
        for (node, learned) in setup.nodes.iter().zip(learned) {
            let Some(learned) = learned.clone().filter(Learned::is_sane) else { continue };
            let error = learned.error_in(turn_of(setup, node));
            let entry = Entry { kind: Kind::of(setup, node, &self.processor), unix_s, learned };
            match fresh.iter_mut().find(|(of, _)| of.kind == entry.kind) {
                Some(other) if error < other.1 => *other = (entry, error),
                Some(_) => {}
                None => fresh.push((entry, error)),
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let _locked = self.file.lock()?;
        // What cannot be read is written anew.
        let mut kept = self.read().unwrap_or_default();
        kept.kinds.retain(|old| fresh.iter().all(|(new, _)| new.kind != old.kind));
        kept.kinds.extend(fresh.into_iter().map(|(entry, _)| entry));
        // What a wrong clock has dated is not the newest for ever.
        kept.kinds.iter_mut().for_each(|entry| entry.unix_s = entry.unix_s.min(unix_s));
        kept.kinds.sort_by_key(|entry| std::cmp::Reverse(entry.unix_s));
        kept.kinds.truncate(KINDS);
        self.file.write(&kept)
    }

    fn read(&self) -> Result<Kept, String> {
        match self.file.read::<Kept>()? {
            Some(Kept { estimator, .. }) if estimator != ESTIMATOR => {
                Err(format!("{} is of a version that estimated otherwise", self.file.path().display()))
            }
            kept => Ok(kept.unwrap_or_default()),
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use cpu::Speed;
    use host::cgroup::Weights;
    use record::Variant;
    use scale::Lengths;
    use serde_json::json;
    use tcp::Offers;

    use super::*;
    use crate::plan::{CoreChoice, Host, Plan, Supply};

    const WEB: &str = r#"
name: web
tdf: 10
machines:
  server: { speed: 0.5, memory: 256MiB }
  client: { speed: 0.08, memory: 128MiB }
nodes:
  server: { machine: server, run: "nginx" }
  client: { count: 3, machine: client, run: "h2load" }
links:
  - { from: server, to: core, bandwidth: 100Mbit/s, delay: 10ms }
  - { from: "client-*", to: core, delay: 5ms }
switches: [core]
ends: { exited: ["client-*"], limit: 60s }
"#;

    fn setup(variant: Variant, overrides: &[(&str, &str)]) -> Setup {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("experiment.yaml"), WEB).unwrap();
        let overrides: Vec<_> = overrides.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
        let experiment = model::load(dir.path(), &overrides).unwrap();
        let host = Host {
            offers: Offers::ALL,
            cores: Supply::of(vec![vec![0], vec![1]], &CoreChoice::default()).unwrap(),
            reference: Speed::from_units_per_us(1000.0),
            weights: Some(Weights::fine()),
            lengths: Lengths::Any,
        };
        Plan::with(&host, &experiment, variant, None).unwrap().setup(&experiment, 1)
    }

    fn scaled() -> Setup {
        setup(Variant::Scaled, &[])
    }

    fn learned(depth: f64, error: f64) -> Learned {
        let curve = json!({ "form": "even", "recovery_us": 160.0, "weight": 1.0, "depth": depth, "error": error });
        serde_json::from_value(json!({ "curves": [curve], "rounds": 40, "windows": 2 })).unwrap()
    }

    fn kept_in(folder: &Path) -> EarlierRefills {
        EarlierRefills::of(StateFile::new(folder, FILE), Some("Xeon".into()))
    }

    /// What is known of the server, and of the first client.
    fn known(kept: &EarlierRefills, setup: &Setup, unix_s: u64) -> [Option<(Learned, f64)>; 2] {
        let all = kept.known_at(setup, unix_s).unwrap();
        assert_eq!(all.len(), setup.nodes.len());
        assert!(all[1..].iter().all(|client| *client == all[1]), "all clients are of one kind");
        [0, 1].map(|node: usize| all[node].clone().map(|Earlier { learned, age }| (learned, age.as_secs_f64())))
    }

    #[test]
    fn the_next_run_of_a_kind_knows_what_was_learned_and_when() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, scaled) = (kept_in(dir.path()), scaled());
        assert_eq!(known(&kept, &scaled, 0), [None, None], "there is no file yet");
        kept.keep_at(&scaled, &[None, None, None, None], 900).unwrap();
        assert!(!dir.path().join(FILE).exists(), "a run that has learned nothing writes nothing");
        let clients = [learned(0.3, 0.2), learned(0.2, 0.1), learned(0.4, 0.3)].map(Some);
        let all = [vec![Some(learned(0.8, 0.1))], clients.to_vec()].concat();
        kept.keep_at(&scaled, &all, 1_000).unwrap();
        let expected = |age: f64| [Some((learned(0.8, 0.1), age)), Some((learned(0.2, 0.1), age))];
        assert_eq!(known(&kept, &scaled, 4_600), expected(3600.0), "of the clients that of the surest");
        assert_eq!(known(&kept, &scaled, 500), expected(0.0), "a clock that was set back");
        // What is newer takes the place of what is older, and of nothing else.
        kept.keep_at(&scaled, &[Some(learned(0.6, 0.3))], 5_000).unwrap();
        assert_eq!(known(&kept, &scaled, 5_000), [Some((learned(0.6, 0.3), 0.0)), Some((learned(0.2, 0.1), 4_000.0))]);
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, [FILE], "no part is left");
    }

    #[test]
    fn other_turns_programs_and_processors_are_of_other_kinds() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, scaled) = (kept_in(dir.path()), scaled());
        kept.keep_at(&scaled, &[Some(learned(0.8, 0.1))], 0).unwrap();
        let server = |overrides: &[(&str, &str)]| known(&kept, &setup(Variant::Scaled, overrides), 0)[0].is_some();
        assert!(server(&[]) && server(&[("machines.client.memory", "64MiB")]));
        for (path, value) in [
            ("tdf", "20"),
            ("grain", "20ms"),
            ("machines.server.speed", "0.3"),
            ("nodes.server.run", "nginx -v"),
            ("nodes.server.env", "{ A: b }"),
            ("name", "other"),
        ] {
            assert!(!server(&[(path, value)]), "{path}={value}");
        }
        let baseline = setup(Variant::Baseline, &[]);
        assert_eq!(known(&kept, &baseline, 0), [None, None]);
        let undilated = Setup { dilated: false, ..scaled.clone() };
        assert_eq!(known(&kept, &undilated, 0), [None, None]);
        let other = EarlierRefills::of(StateFile::new(dir.path(), FILE), None);
        assert_eq!(known(&other, &scaled, 0), [None, None]);
    }

    #[test]
    fn a_file_that_is_of_no_use_is_ignored_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, scaled) = (kept_in(dir.path()), scaled());
        let file = dir.path().join(FILE);
        for text in ["", "\0", "[]", "{}", r#"{"estimator":1,"kinds":[{"kind":7}]}"#] {
            fs::write(&file, text).unwrap();
            let why = kept.known_at(&scaled, 0).unwrap_err();
            assert!(why.contains("refills.json is not what was written"), "{text:?}: {why}");
        }
        fs::write(&file, r#"{"estimator":0,"kinds":[]}"#).unwrap();
        assert!(kept.known_at(&scaled, 0).unwrap_err().contains("estimated otherwise"));
        kept.keep_at(&scaled, &[Some(learned(0.8, 0.1))], 0).unwrap();
        assert!(known(&kept, &scaled, 0)[0].is_some());
        // Numbers that nobody can have written, in a file that is whole.
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("0.8", "80.0")).unwrap();
        assert_eq!(known(&kept, &scaled, 0), [None, None]);
        // A folder in its place cannot be replaced, and the old is not lost by that.
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let error = kept.keep_at(&scaled, &[Some(learned(0.8, 0.1))], 0).unwrap_err().to_string();
        assert!(error.contains("refills.json: cannot write"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no part is left");
    }

    #[test]
    fn only_what_was_learned_last_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, mut scaled) = (kept_in(dir.path()), scaled());
        for n in 0..KINDS as u64 + 10 {
            scaled.nodes[0].role = format!("web/{n}");
            // The second is from a future that has not come.
            let at = if n == 1 { 1_000_000 } else { n };
            kept.keep_at(&scaled, &[Some(learned(0.8, 0.1))], at).unwrap();
        }
        let all = kept.read().unwrap().kinds;
        let roles: Vec<_> = all.iter().map(|entry| entry.kind.role.clone()).collect();
        assert_eq!(all.len(), KINDS);
        assert!(
            roles.contains(&"web/209".into())
                && !["web/1", "web/9"].iter().any(|role| roles.contains(&role.to_string())),
            "{roles:?}"
        );
    }
}
