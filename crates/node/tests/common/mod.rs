//! An enclosure with nodes for one test, on every runtime that is installed.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use diorama_node::{Enclosure, EnclosureOptions, Io, Node, NodeSpec, ParentNamespace, Runtime};
use host::NetNamespace;
use host::cgroup::Tree;

/// How long a test waits for what must come, which may take its time on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How a program in a node ended, and what it wrote to both outputs.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub output: String,
}

impl Outcome {
    pub fn ok(&self) -> &str {
        assert!(self.status.success(), "the command failed: {self:?}");
        self.output.trim()
    }
}

/// One enclosure; its state directory and its cgroups go when it is dropped.
pub struct World {
    pub enclosure: Option<Enclosure>,
    pub runtime: Runtime,
    pub state: tempfile::TempDir,
    pub groups: Tree,
    /// Whether its nodes have user namespaces.
    users: bool,
}

impl World {
    pub fn new(runtime: Runtime) -> World {
        World::hiding(runtime, Vec::new())
    }

    /// One whose nodes have user namespaces.
    pub fn with_users(runtime: Runtime) -> World {
        World::of(runtime, Vec::new(), true)
    }

    pub fn hiding(runtime: Runtime, hide: Vec<PathBuf>) -> World {
        World::of(runtime, hide, wants_users())
    }

    fn of(runtime: Runtime, hide: Vec<PathBuf>, users: bool) -> World {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Not under /tmp where that is in memory: overlay is to be tested on a disk.
        let state = tempfile::tempdir_in("/var/tmp").expect("a state directory");
        let init = program();
        let options = EnclosureOptions { state: state.path().into(), init, core: None, hide, user_namespaces: users };
        let enclosure = Some(Enclosure::open(options).expect("an enclosure"));
        let id = format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        World { enclosure, runtime, state, groups: Tree::of(&id).expect("control groups"), users }
    }

    pub fn enclosure(&self) -> &Enclosure {
        self.enclosure.as_ref().expect("the enclosure is open")
    }

    /// The spec of a node that runs `script` in a shell.
    pub fn spec(&self, name: &str, script: &str) -> NodeSpec {
        NodeSpec::plain(name, &["sh", "-c", script], 256 << 20, self.groups.path(name), self.netns())
    }

    fn netns(&self) -> NetNamespace {
        match self.users {
            false => NetNamespace::create().expect("a network namespace"),
            true => ParentNamespace::create().and_then(|parent| parent.child(true)).expect("a user namespace"),
        }
    }

    pub fn create(&self, spec: NodeSpec) -> (Node, File) {
        let (io, output) = io();
        let node = Node::create(self.enclosure(), &self.runtime, spec, io).expect("a node");
        (node, output)
    }

    /// Runs a node to its end.
    pub fn run_spec(&self, spec: NodeSpec) -> Outcome {
        let (node, output) = self.create(spec);
        node.start().expect("a start");
        let status = node.wait(Some(PATIENCE)).expect("the node ends");
        let outcome = Outcome { status, output: text(output) };
        node.delete().expect("a deletion");
        outcome
    }

    pub fn run(&self, script: &str) -> Outcome {
        self.run_spec(self.spec("node", script))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.enclosure.take());
        self.groups.sweep().expect("the control groups can be removed");
        diorama_node::remove_tree(self.state.path()).expect("the state directory can be removed");
    }
}

/// The program that answers to `__init`: an example of this crate, which `cargo test` builds.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let program = test.parent().and_then(|dir| dir.parent()).expect("target/PROFILE").join("examples/enclosed");
    assert!(program.exists(), "{} is missing: run `cargo build -p diorama-node --examples`", program.display());
    program
}

/// Outputs that go to one file, and that file.
pub fn io() -> (Io, File) {
    let file = tempfile::tempfile().expect("a file");
    let copy = || file.try_clone().expect("a copy");
    (Io { stdout: copy(), stderr: copy(), preserve: Vec::new(), gate: None }, file)
}

pub fn text(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().expect("a rewind");
    file.read_to_string(&mut text).expect("text");
    text
}

/// Whether all tests of this crate are to have nodes with user namespaces.
fn wants_users() -> bool {
    std::env::var_os("DIORAMA_USER_NAMESPACES").is_some()
}

/// The runtimes that can make a node here.
pub fn runtimes() -> Vec<Runtime> {
    let mut all = Runtime::available();
    all.retain(|runtime| !wants_users() || runtime.makes_user_namespaces());
    all
}

/// Runs a test with every runtime that is installed; at least one must be.
pub fn with_each_runtime(test: impl Fn(World)) {
    let runtimes = runtimes();
    assert!(!runtimes.is_empty(), "these tests need an OCI runtime: apt-get install crun runc");
    for runtime in runtimes {
        eprintln!("with {} {}", runtime.name(), runtime.version());
        test(World::new(runtime));
    }
}

/// A directory of the host that nodes see below their own `/opt`, with some files, for tests that change what is the
/// host's. It goes when it is dropped.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        let dir = tempfile::Builder::new().prefix("diorama-test-").tempdir_in("/opt").expect("these tests need root");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::create_dir(dir.path().join("doc")).expect("a directory");
        for name in ["doc/page", "kept", "page"] {
            fs::write(dir.path().join(name), "kept\n").expect("a file");
        }
        Scratch(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Its content, as the host sees it.
    pub fn listed(&self) -> Vec<String> {
        let found = Command::new("find").arg(self.path()).args(["-mindepth", "1", "-printf", "%P\n"]).output();
        let mut names: Vec<_> =
            String::from_utf8(found.expect("find").stdout).expect("text").lines().map(Into::into).collect();
        names.sort();
        names
    }
}
