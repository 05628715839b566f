//! `diorama-trials conformance`: programs that wait, natively, under `diorama dilate`, and under libfaketime.
//!
//! Each script of `conformance/` starts one program and lets it wait, by its own means and for a known time, as its own
//! clock measures it. It prints a line a wait: what it should have taken in ms, what it took, and its name; and `-`
//! when what it had to compile is compiled. From there to its end must pass, on a real clock, TDF times the sum of the
//! waits, or it was not dilated at all.

use std::fmt;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::driver::{Driver, apart};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::page::Page;
use crate::way::{Said, TDF, Way, amiss, listen};

/// The scripts, from where make is run.
const SCRIPTS: &str = "crates/trials/conformance";
/// A program that takes longer than this, in real time, hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Arguments of `diorama-trials conformance`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only these programs [default: all in crates/trials/conformance]
    programs: Vec<String>,
    /// Not under libfaketime
    #[arg(long)]
    without_faketime: bool,
    #[command(flatten)]
    page: Page,
}

/// The outcome of a script.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    /// So many waits, all as long as they should be.
    Good(usize),
    Bad(String),
    /// Not tried, and why.
    Absent(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Good(waits) => write!(f, "{waits} of {waits}"),
            Verdict::Bad(why) => write!(f, "**{why}**"),
            Verdict::Absent(why) => write!(f, "– ({why})"),
        }
    }
}

#[derive(Debug)]
struct Outcome {
    verdict: Verdict,
    /// CPU time of the script and all that it waited for, in s.
    cpu: f64,
}

impl Outcome {
    fn absent(why: impl Into<String>) -> Outcome {
        Outcome { verdict: Verdict::Absent(why.into()), cpu: 0.0 }
    }
}

/// Runs the verb. A program that fails dilated, or natively (and so proves nothing), is a failure of this command.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let scripts = scripts(SCRIPTS, &args.programs)?;
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for script in &scripts {
        let text = fs::read_to_string(script).map_err(|e| Failure::failed(format!("{}: {e}", script.display())))?;
        let title = header(&text, "program").unwrap_or_else(|| script.display().to_string());
        let run = |way| {
            eprintln!("{title}: {way:?}");
            run(script, way, &driver)
        };
        let (native, dilated) = (run(Way::Native)?, run(Way::Dilated)?);
        let faketime = if args.without_faketime { Outcome::absent("not tried") } else { run(Way::Faketime)? };
        if !matches!(native.verdict, Verdict::Good(_)) || native.verdict != dilated.verdict {
            failed.push(title.clone());
        }
        let ratio = |of: &Outcome| match (&native.verdict, &of.verdict) {
            (Verdict::Good(_), Verdict::Good(_)) if native.cpu > 0.0 => format!("{:.2}", of.cpu / native.cpu),
            _ => "–".into(),
        };
        rows.push(format!(
            "| {title} | {} | {} | {} | {} | {:.2} | {} | {} |",
            native.verdict,
            dilated.verdict,
            faketime.verdict,
            header(&text, "packages").unwrap_or_default(),
            native.cpu,
            ratio(&dilated),
            ratio(&faketime),
        ));
        eprintln!("{}", rows.last().expect("just pushed"));
    }
    let table = format!(
        "| program | native | `dilate --tdf {TDF}` | libfaketime | packages | CPU s, native \
         | dilated / native | libfaketime / native |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n{}\n\nRun on {}.\n",
        rows.join("\n"),
        Machine::here()
    );
    args.page.publish("programs", &table)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(format!(
            "these do not wait as they should, natively or dilated: {}",
            failed.join(", ")
        ))),
    }
}

/// The scripts in `directory` that have these names, all of them if there is none, in their order. A name without a
/// script is an error.
pub fn scripts(directory: &str, names: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let io = |e| Failure::input(format!("{directory}: {e}: run this in Diorama's own directory"));
    let mut all: Vec<PathBuf> = fs::read_dir(directory).map_err(io)?.flatten().map(|e| e.path()).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "sh"));
    all.sort();
    let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|path| stem(path) == **name)) {
        let known: Vec<String> = all.iter().map(stem).collect();
        return Err(Failure::input(format!("{directory} has no `{unknown}`; it has {}", known.join(", "))));
    }
    all.retain(|path| names.is_empty() || names.contains(&stem(path)));
    Ok(all)
}

/// The value of `# key: value` in a script.
pub fn header(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(key)?.strip_prefix(": "));
    line.map(str::to_owned)
}

/// Runs a script in a directory of its own. Only an interruption is a failure.
fn run(script: &Path, way: Way, driver: &Driver) -> Result<Outcome, Failure> {
    let script = script.canonicalize().map_err(|e| Failure::failed(format!("{}: {e}", script.display())))?;
    let directory = tempfile::tempdir().map_err(Failure::failed)?;
    let complained = directory.path().join(".err");
    let before = children_cpu();
    let mut child = match command(&script, way, driver, directory.path(), &complained).spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Outcome::absent("not installed")),
        Err(e) => return Ok(Outcome::absent(e.to_string())),
    };
    let group = Pid::from_child(&child);
    let listener = child.stdout.take().map(|out| thread::spawn(move || listen(out)));
    let ended = driver.wait(&mut child, &script.display().to_string(), Some(PATIENCE));
    // Ends processes that hang, and those that a script has left.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    let status = ended?;
    let said = listener.and_then(|l| l.join().ok()).unwrap_or_default();
    let verdict = judge(status, &said, way.pace());
    if let Verdict::Bad(why) = &verdict {
        eprintln!("  {way:?}: {why}\n{}", fs::read_to_string(&complained).unwrap_or_default());
    }
    Ok(Outcome { verdict, cpu: children_cpu() - before })
}

fn command(script: &Path, way: Way, driver: &Driver, directory: &Path, complaints: &Path) -> Command {
    let mut command = way.command(driver, "sh");
    let complaints = fs::File::create(complaints).map(Stdio::from).unwrap_or_else(|_| Stdio::null());
    command.arg(script).current_dir(directory).env("HOME", directory).env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints);
    // A Rust that rustup has installed is found from the home that it was installed in.
    if let (Some(home), None) = (std::env::home_dir(), std::env::var_os("RUSTUP_HOME")) {
        command.env("RUSTUP_HOME", home.join(".rustup"));
    }
    apart(&mut command);
    command
}

/// Judges a script by its lines; `pace` is how many real seconds a second of its waits had to last.
fn judge(status: Option<ExitStatus>, said: &Said, pace: f64) -> Verdict {
    match status {
        None => return Verdict::Bad("hangs".into()),
        Some(status) if status.code() == Some(127) => return Verdict::Absent("not installed".into()),
        Some(status) if !status.success() => {
            let how =
                status.signal().map_or(format!("exit {}", status.code().unwrap_or(-1)), |s| format!("signal {s}"));
            return Verdict::Bad(how);
        }
        Some(_) => {}
    }
    let (mut waits, mut waited) = (0, 0.0);
    for line in said.text.lines() {
        let mut words = line.splitn(3, [' ', '\t']);
        let mut number = || words.next().and_then(|word| word.parse::<f64>().ok());
        let (Some(nominal), Some(took)) = (number(), number()) else {
            return Verdict::Bad(format!("said `{line}`"));
        };
        let name = words.next().unwrap_or("a wait");
        if let Some(why) = amiss(nominal, 0.0, took) {
            return Verdict::Bad(format!("{name}: {why}, {took} of {nominal} ms"));
        }
        waits += 1;
        waited += nominal;
    }
    // Programs count whole ms, and libfaketime is not exact.
    if said.real.as_secs_f64() * 1e3 < 0.95 * pace * waited {
        return Verdict::Bad("not dilated".into());
    }
    if waits == 0 { Verdict::Bad("waited for nothing".into()) } else { Verdict::Good(waits) }
}

/// CPU time of all children that were waited for, and theirs, in s: fields 16 and 17 of proc(5)'s `stat`.
pub fn children_cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').skip(13).take(2));
    fields.into_iter().flatten().filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_never_early_and_seldom_late() {
        let ok = Some(ExitStatus::from_raw(0));
        let judge = |status, text: &str| {
            let said = Said { text: text.into(), real: Duration::from_secs(6) };
            super::judge(status, &said, 10.0)
        };
        assert_eq!(judge(ok, "200 201 sleep\n300\t310\tselect\n"), Verdict::Good(2));
        assert!(matches!(judge(ok, "200 199 sleep\n"), Verdict::Bad(why) if why.contains("sleep: early")));
        assert!(matches!(judge(ok, "200 2000 sleep\n"), Verdict::Bad(why) if why.contains("late")));
        assert!(
            matches!(judge(ok, "650 650 sleep\n"), Verdict::Bad(why) if why == "not dilated"),
            "6.5 s in 6 real ones"
        );
        assert!(matches!(judge(ok, ""), Verdict::Bad(_)), "a program that did nothing proves nothing");
        assert!(matches!(judge(ok, "Segmentation fault\n"), Verdict::Bad(_)));
        assert!(
            matches!(judge(Some(ExitStatus::from_raw(1 << 8)), "200 200 x\n"), Verdict::Bad(why) if why == "exit 1")
        );
        assert!(matches!(judge(None, ""), Verdict::Bad(why) if why == "hangs"));
    }

    #[test]
    fn a_name_without_a_script_is_an_error() {
        let of = |names: &[&str]| scripts("conformance", &names.iter().map(|n| n.to_string()).collect::<Vec<_>>());
        let error = of(&["redis", "pgbench"]).unwrap_err().message;
        assert!(error.starts_with("conformance has no `pgbench`; it has apache, "), "{error}");
        assert_eq!(of(&["redis"]).unwrap(), [PathBuf::from("conformance/redis.sh")]);
        assert!(of(&[]).unwrap().len() > 20);
    }
}
