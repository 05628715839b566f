//! Runs a script in a Tcl of its own: a process without rights, without a network, in a file system that holds nothing
//! but Tcl and the script.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::calls::{self, Record};
use crate::error::{Error, Note};
use crate::tb;

/// The prelude that the interpreter runs before the script.
const PRELUDE: &str = include_str!("prelude.tcl");
/// For how long a script may run, by its own interpreter's clock, seconds.
const SECONDS: u64 = 9;
/// When it is killed, whatever it says: wall time.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much processor time it may have, in seconds.
const CPU: u64 = 10;
/// How much memory it may have, in bytes.
const MEMORY: u64 = 64 << 20;
/// How much it may write, in bytes: a script that makes more objects than this holds is none.
const OUTPUT: u64 = 3 << 20;
/// The longest script, in bytes.
const LONGEST: u64 = 4 << 20;
/// The most files beside a script that it may read.
const FILES: usize = 200;
/// How the names of temporary directories begin.
const SCRATCH: &str = "diorama-ns-";
/// After this time nobody uses such a directory any more.
const FORSAKEN: Duration = Duration::from_secs(600);
/// `nobody`.
const NOBODY: u32 = 65534;
/// Where the script is inside.
const INSIDE: &str = "/script";

/// Runs a script and gives what it did.
///
/// # Errors
///
/// If it cannot be read, if this machine has no Tcl, or if the script fails: with its line.
pub fn run(script: &Path) -> Result<Record, Error> {
    let place = Workplace::new(script)?;
    let (output, killed) = place.interpret(false)?;
    let mut record = calls::read(&output, |path| place.shown(path));
    if let Some(note) = calls::failure(&record, |path| place.shown(path)) {
        return Err(Error::Script(vec![note]));
    }
    if record.complete {
        return Ok(record);
    }
    // It was killed, or Tcl itself gave up. Once more, saying each line before it runs.
    if !matches!(killed, Ended::TooMuch) {
        record = calls::read(&place.interpret(true)?.0, |path| place.shown(path));
    }
    let what = match killed {
        Ended::TooMuch => "the script writes more than the 3 MiB that an experiment may be: is there a loop that \
                           never ends?"
            .to_owned(),
        Ended::TooLong => {
            "the script does not come to an end within 10 seconds; is there a loop that never ends?".into()
        }
        Ended::Itself(said) if said.contains("alloc") || said.is_empty() => calls::too_large(),
        Ended::Itself(said) => format!("Tcl gave up: {}", said.lines().next().unwrap_or_default()),
    };
    Err(Error::Script(vec![Note { place: record.last, what }]))
}

/// How an interpreter ended.
enum Ended {
    /// By itself, with this on its standard error.
    Itself(String),
    TooLong,
    TooMuch,
}

/// A script, and the copy of it that the interpreter sees.
struct Workplace {
    /// The folder of the script, as the user calls it.
    folder: PathBuf,
    script: String,
    tclsh: PathBuf,
    /// Holds `script`, with the files, and `root`, the mount point of what the interpreter sees.
    scratch: tempfile::TempDir,
    /// Whether it can be shut in.
    root: bool,
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |e| Error::Machine {
        what: format!("{what}: {e}"),
        help: "look at the free space of the temporary directory".into(),
    }
}

impl Workplace {
    fn new(script: &Path) -> Result<Workplace, Error> {
        let unreadable = |why: &str| Error::Unreadable { path: script.to_owned(), why: why.into() };
        let name = script.file_name().ok_or_else(|| unreadable("this is no file: name an ns script"))?;
        let folder = match script.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let meta = fs::metadata(script).map_err(|e| unreadable(&e.to_string()))?;
        if !meta.is_file() || meta.len() > LONGEST {
            return Err(unreadable("this is no script: it is not a file, or longer than 4 MiB"));
        }
        remove_forsaken();
        let scratch = tempfile::Builder::new().prefix(SCRATCH).tempdir().map_err(failed("no temporary directory"))?;
        let files = scratch.path().join("script");
        let step = || -> io::Result<()> {
            fs::create_dir(&files)?;
            fs::create_dir(scratch.path().join("root"))?;
            copied(script, &files.join(name))?;
            fs::write(files.join(".prelude"), PRELUDE)?;
            let mut beside = 0;
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let (path, meta) = (entry.path(), entry.metadata()?);
                let wanted = path.extension().is_some_and(|e| e == "ns" || e == "tcl");
                if wanted && meta.is_file() && meta.len() <= LONGEST && entry.file_name() != name && beside < FILES {
                    copied(&path, &files.join(entry.file_name()))?;
                    beside += 1;
                }
            }
            for entry in fs::read_dir(&files)? {
                fs::set_permissions(entry?.path(), fs::Permissions::from_mode(0o444))?;
            }
            for open in [scratch.path(), &files] {
                fs::set_permissions(open, fs::Permissions::from_mode(0o755))?;
            }
            Ok(())
        };
        step().map_err(failed("the script cannot be copied"))?;
        // SAFETY: no arguments, no memory.
        let root = unsafe { libc::geteuid() } == 0;
        let script = name.to_string_lossy().into_owned();
        Ok(Workplace { folder, script, tclsh: tclsh()?, scratch, root })
    }

    /// Where the interpreter finds the script.
    fn inside(&self) -> PathBuf {
        if self.root { PathBuf::from(INSIDE) } else { self.scratch.path().join("script") }
    }

    /// How the user calls a file of the script.
    fn shown(&self, path: &str) -> String {
        let name = Path::new(path).file_name().unwrap_or_default();
        match self.folder == Path::new(".") {
            true => name.to_string_lossy().into_owned(),
            false => self.folder.join(name).display().to_string(),
        }
    }

    fn interpret(&self, precise: bool) -> Result<(String, Ended), Error> {
        let inside = self.inside();
        let names: Vec<&str> = tb::COMMANDS.iter().map(|c| c.name).collect();
        let mut command = Command::new(&self.tclsh);
        command
            .arg(inside.join(".prelude"))
            .arg(inside.join(&self.script))
            .arg(&inside)
            .arg(names.join(" "))
            .arg(SECONDS.to_string())
            .arg(if precise { "1" } else { "0" })
            .env_clear()
            .env("LANG", "C.UTF-8")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let shut = Shut::new(self.root.then(|| self.scratch.path()));
        // SAFETY: between fork and exec `Shut::go` makes system calls only, with strings that were made before; it
        // neither allocates nor takes a lock.
        unsafe { command.pre_exec(move || shut.go()) };
        let mut child = command.spawn().map_err(|e| Error::Machine {
            what: format!("{} cannot be started: {e}", self.tclsh.display()),
            help: "as root, `apt-get install tcl8.6`; in a container, it needs the right to mount".into(),
        })?;
        Ok(listen(&mut child))
    }
}

/// Takes all that an interpreter writes until it ends, or has to be ended.
fn listen(child: &mut Child) -> (String, Ended) {
    let reader = |from: Option<Box<dyn Read + Send>>, most: u64| {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(from) = from {
                let _ = from.take(most).read_to_end(&mut bytes);
            }
            let _ = tell.send(bytes);
        });
        told
    };
    let output = reader(child.stdout.take().map(|o| Box::new(o) as Box<dyn Read + Send>), OUTPUT);
    let errors = reader(child.stderr.take().map(|o| Box::new(o) as Box<dyn Read + Send>), 1 << 16);
    let in_time = output.recv_timeout(PATIENCE);
    let ended_late = in_time.is_err();
    // Nobody would hear anything that it could still do.
    let _ = child.kill();
    let _ = child.wait();
    let bytes = in_time.or_else(|_| output.recv()).unwrap_or_default();
    let said = String::from_utf8_lossy(&errors.recv().unwrap_or_default()).into_owned();
    let ended = match () {
        () if ended_late => Ended::TooLong,
        () if bytes.len() as u64 >= OUTPUT => Ended::TooMuch,
        () => Ended::Itself(said),
    };
    // Not a copy of it, where it need not be.
    (String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()), ended)
}

/// Copies a script that somebody may exchange meanwhile: opening a FIFO would wait for ever, and it may have grown.
fn copied(from: &Path, to: &Path) -> io::Result<()> {
    let from = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(from)?;
    if !from.metadata()?.is_file() {
        return Err(io::Error::other("this is not a file"));
    }
    io::copy(&mut from.take(LONGEST), &mut fs::File::create(to)?).map(drop)
}

/// Removes what was left behind by those who were killed while a script ran.
fn remove_forsaken() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(SCRATCH)) {
        let old = entry.metadata().is_ok_and(|meta| {
            let age = meta.modified().ok().and_then(|at| at.elapsed().ok());
            meta.is_dir() && age.is_some_and(|age| age > FORSAKEN)
        });
        if old {
            // Entries that belong to somebody else stay.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// This machine's Tcl.
fn tclsh() -> Result<PathBuf, Error> {
    let places = ["/usr/bin/tclsh8.6", "/usr/bin/tclsh", "/usr/local/bin/tclsh8.6", "/usr/local/bin/tclsh"];
    places.iter().map(PathBuf::from).find(|p| p.exists()).ok_or_else(|| Error::Machine {
        what: "this machine has no Tcl, which ns scripts are written in".into(),
        help: "as root, `apt-get install tcl8.6`".into(),
    })
}

/// Restrictions of a process on itself before it becomes the interpreter: everything is prepared, so that nothing has
/// to be allocated between fork and exec.
struct Shut {
    /// Where a file system of its own is put together; none where that is not allowed.
    root: Option<CString>,
    /// Mounts made there: from, to; both from outside.
    binds: Vec<(CString, CString)>,
    /// Symbolic links there: what they say, and where they are.
    links: Vec<(CString, CString)>,
    folders: Vec<CString>,
}

const NOTHING: *const libc::c_char = std::ptr::null();

impl Shut {
    fn new(scratch: Option<&Path>) -> Shut {
        let c = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        let mut shut = Shut { root: None, binds: Vec::new(), links: Vec::new(), folders: Vec::new() };
        let Some(scratch) = scratch else { return shut };
        let root = scratch.join("root");
        let mut bind = |from: &Path, to: &str| {
            let to = c(&root.join(to));
            shut.folders.push(to.clone());
            shut.binds.push((c(from), to));
        };
        bind(Path::new("/usr"), "usr");
        bind(&scratch.join("script"), INSIDE.trim_start_matches('/'));
        for name in ["lib", "lib64", "lib32"] {
            let path = Path::new("/").join(name);
            match fs::read_link(&path) {
                Ok(target) => shut.links.push((c(&target), c(&root.join(name)))),
                Err(_) if path.is_dir() => {
                    let to = c(&root.join(name));
                    shut.folders.push(to.clone());
                    shut.binds.push((c(&path), to));
                }
                Err(_) => {}
            }
        }
        shut.root = Some(c(&root));
        shut
    }

    /// Gives up all rights.
    fn go(&self) -> io::Result<()> {
        // Whoever read the script may have done so with somebody else's rights, by which nothing can be mounted.
        if self.root.is_some() {
            // SAFETY: a plain number.
            unsafe { libc::setfsuid(0) };
        }
        // SAFETY: plain numbers.
        check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        let own = libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        if let Some(root) = &self.root {
            // SAFETY: a plain number.
            check(unsafe { libc::unshare(own | libc::CLONE_NEWNS) })?;
            self.mount(root)?;
            // SAFETY: no list, and plain numbers: `nobody`, in no group.
            unsafe {
                check(libc::setgroups(0, std::ptr::null()))?;
                check(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
                check(libc::setresuid(NOBODY, NOBODY, NOBODY))?;
            }
        } else {
            // Whoever is not root has no more rights inside than outside; without a network, where the kernel lets him.
            // SAFETY: a plain number.
            let _ = unsafe { libc::unshare(own | libc::CLONE_NEWUSER) };
        }
        // SAFETY: plain numbers. It ends with the thread that made it; said only now, for becoming another user undoes
        // it.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        for (what, most) in [
            (libc::RLIMIT_CPU, CPU),
            (libc::RLIMIT_AS, MEMORY),
            (libc::RLIMIT_FSIZE, 0),
            (libc::RLIMIT_CORE, 0),
            (libc::RLIMIT_NOFILE, 32),
        ] {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // SAFETY: `limit` is read during the call only.
            check(unsafe { libc::setrlimit(what, &raw const limit) })?;
        }
        // No other process, also where a user has some already.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: as above.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const none) })
    }

    /// A file system that holds what was prepared, and nothing else.
    fn mount(&self, root: &CString) -> io::Result<()> {
        let (slash, tmpfs, size) = (c"/".as_ptr(), c"tmpfs".as_ptr(), c"size=64k,mode=755".as_ptr());
        let quiet = libc::MS_NOSUID | libc::MS_NODEV;
        // SAFETY: every pointer is to a string that ends in zero and lives as long as `self` or the program, or none.
        unsafe {
            check(libc::mount(NOTHING, slash, NOTHING, libc::MS_REC | libc::MS_PRIVATE, std::ptr::null()))?;
            check(libc::mount(tmpfs, root.as_ptr(), tmpfs, quiet, size.cast()))?;
            for folder in &self.folders {
                check(libc::mkdir(folder.as_ptr(), 0o755))?;
            }
            for (says, at) in &self.links {
                check(libc::symlink(says.as_ptr(), at.as_ptr()))?;
            }
            for (from, to) in &self.binds {
                check(libc::mount(from.as_ptr(), to.as_ptr(), NOTHING, libc::MS_BIND, std::ptr::null()))?;
                let closed = quiet | libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY;
                check(libc::mount(NOTHING, to.as_ptr(), NOTHING, closed, std::ptr::null()))?;
            }
            check(libc::chroot(root.as_ptr()))?;
            check(libc::chdir(slash))
        }
    }
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
