//! Fetching images: skopeo, which every distribution has, brings them from where they are.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use model::yaml::wrong_word;
use rustix::process::Signal;
use site::KeptAbout;

use super::reference::{image_reference, local_name};

use super::{LAYOUT, all, begin, is_taken, keep, unix_s};
use crate::error::{Error, Result};

/// The program that fetches images.
const SKOPEO: &str = "skopeo";
/// How often it is looked whether it is done, and whether there is room.
const LOOK: Duration = Duration::from_millis(50);
/// The most that is kept of what it says, in bytes.
const MOST_SAID: u64 = 1 << 16;

/// Fetches an image and keeps it, under `name` or else one that follows from its own. One that is kept already is not
/// fetched again.
///
/// # Errors
///
/// If there is no such image, nobody can fetch it, or there is no room; nothing is left then.
pub fn pull_image(reference: &str, name: Option<&str>) -> Result<KeptAbout> {
    let whole = image_reference(reference)?;
    let name = name.map_or_else(|| local_name(&whole), str::to_owned);
    if let Some(what) = wrong_word(&name) {
        return Err(Error::Usage(what));
    }
    if let Some(about) = all().into_iter().find(|about| about.name == name) {
        return if about.reference.as_ref() == Some(&whole) { Ok(about) } else { Err(is_taken(&name)) };
    }
    let part = begin(&name)?;
    let layout = part.dir.join(LAYOUT);
    copy(&whole, &layout)?;
    let contents = node::inspect(&layout)?;
    let about = KeptAbout {
        name,
        experiment: String::new(),
        variant: String::new(),
        run: PathBuf::new(),
        node: String::new(),
        reference: Some(whole),
        saved_unix_s: unix_s(),
        digest: contents.digest.unwrap_or_default(),
        bytes: size(&layout).map_err(Error::file(&layout, "read"))?,
        over: None,
        versions: BTreeMap::new(),
        left_out: Vec::new(),
        changed: Vec::new(),
    };
    keep(&part, &about)?;
    Ok(about)
}

/// The image that was fetched under a name, if the machine keeps one.
pub fn kept_image(reference: &str) -> Option<String> {
    let whole = image_reference(reference).ok()?;
    all().into_iter().find(|about| about.reference.as_ref() == Some(&whole)).map(|about| about.name)
}

fn copy(reference: &str, layout: &Path) -> Result<()> {
    let mut command = Command::new(SKOPEO);
    command.args(["--override-os", "linux", "--override-arch", "amd64", "copy", "--quiet"]);
    if is_here(reference) {
        command.arg("--src-tls-verify=false");
    }
    command.arg(format!("docker://{reference}")).arg(format!("oci:{}:latest", layout.display()));
    // SAFETY: between fork and exec it is one system call with plain numbers.
    unsafe { command.pre_exec(|| Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)) };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::machine(
            format!("`{SKOPEO}`, which fetches images, is not installed"),
            "apt-get install skopeo (or what your distribution has instead)",
        ),
        _ => Error::io(SKOPEO)(e),
    })?;
    let heard = child.stderr.take().map(|said| std::thread::spawn(move || heard(said)));
    let mut room = Ok(());
    let status = loop {
        if let Some(status) = child.try_wait().map_err(Error::io(SKOPEO))? {
            break status;
        }
        room = host::room::check(layout.parent().unwrap_or(layout), 0);
        if room.is_err() {
            let _ = child.kill();
            break child.wait().map_err(Error::io(SKOPEO))?;
        }
        std::thread::sleep(LOOK);
    };
    room?;
    if status.success() {
        return Ok(());
    }
    let said = heard.and_then(|heard| heard.join().ok()).unwrap_or_default();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    let why = last.split_once("msg=").map_or(last, |(_, why)| why).trim_matches('"');
    let nobody_has_it = ["manifest unknown", "not found", "name unknown", "requested access"];
    match nobody_has_it.iter().any(|known| why.contains(known)) {
        true => Err(Error::Usage(format!("there is no image `{reference}`: {why}"))),
        false => Err(Error::machine(
            format!("the image `{reference}` cannot be fetched: {why}"),
            "try `skopeo inspect docker://` with its name; where there is no network, `docker save` it elsewhere",
        )),
    }
}

/// The beginning of what a program says, all of which is read.
fn heard(mut from: impl Read) -> String {
    let mut said = Vec::new();
    let _ = from.by_ref().take(MOST_SAID).read_to_end(&mut said);
    let _ = io::copy(&mut from, &mut io::sink());
    String::from_utf8_lossy(&said).into_owned()
}

/// Whether an image is fetched from this machine itself, where nobody has certificates; Docker does the same.
fn is_here(reference: &str) -> bool {
    let host = reference.split('/').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// How large all files below a directory are, in bytes.
fn size(dir: &Path) -> io::Result<u64> {
    let mut all = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        all += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(all)
}
