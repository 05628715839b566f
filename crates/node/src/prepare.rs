//! Description of a node, and the part of making it that needs no runtime: files, mounts, the bundle.

use std::cell::Cell;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::beneath::Dir;
use host::rights::Rights;
use host::user_namespace::UserNamespace;
use host::{NetNamespace, cgroup, mounts};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MoveMountFlags, OpenTreeFlags};

use crate::bundle::{self, Parts};
use crate::enclosure::Shared;
use crate::error::{Context, Error};
use crate::image::Unpacked;
use crate::own_files::Machine;
use crate::rootfs::{Below, RootFs, Writes};
use crate::volume::{NodeDisk, Volume};
use crate::{host_view, image, own_files, rootfs};

/// Source of a node's root file system; the node's own writes never reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The host's root, without its data and secrets.
    Host,
    /// A directory that holds a root file system.
    Dir(PathBuf),
    /// An image archive: the tar file of an OCI layout, or of `docker save`. The environment that the image sets is
    /// the node's, where the node sets none; its entry point, user and volumes are not used.
    OciArchive(PathBuf),
    /// An image that has been unpacked, by [`crate::unpack`]; likewise. It must stay as it is as long as the node is.
    Image(Unpacked),
}

/// Description of a node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its name, which is also its hostname.
    pub name: String,
    /// Source of its root file system.
    pub root: Root,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its environment, `NAME=value`; a `PATH` and `HOME=/root` are added where they are missing.
    pub env: Vec<String>,
    /// The directory it starts in, such as `/`.
    pub cwd: String,
    /// As whom its program runs: the numbers of the user and the group.
    pub user: (u32, u32),
    /// Its own name for itself; none: its name.
    pub hostname: Option<String>,
    /// The number of the signal by which it is ended; none: SIGTERM.
    pub stop_signal: Option<i32>,
    /// The contents of its `/etc/hosts`, beside `localhost`.
    pub hosts: Vec<(String, IpAddr)>,
    /// Files and folders of the host that are copied into it: (path in the node, path on the host).
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Files with a text of ours: (path in the node, text).
    pub texts: Vec<(PathBuf, String)>,
    /// Programs of Diorama's own, shown read-only: (path in the node, content).
    pub tools: Vec<(PathBuf, &'static [u8])>,
    /// Its memory, in bytes; the kernel's OOM killer ends what exceeds it.
    pub memory_bytes: u64,
    /// The core on which it runs.
    pub core: usize,
    /// The numbers of the CPUs that it sees, all of them on that core if it shares that.
    pub cpus: Range<usize>,
    /// The cores that it has to itself; none: it shares `core`.
    pub whole_cores: Vec<usize>,
    /// Its cgroup, the same path in every controller, such as `/diorama-ID/emu/node-NAME/c`.
    pub cgroup: String,
    /// Its network.
    pub netns: NetNamespace,
    /// The disk that holds what it writes; none: a directory of the run.
    pub disk: Option<NodeDisk>,
    /// Where such a node of an earlier run has left what it wrote, on its disk or else here: this one goes on with it.
    pub kept: Option<PathBuf>,
}

impl NodeSpec {
    /// A node that shows the host's own root and nothing else, as root in `/`, with one CPU on core 0 and no disk.
    pub fn plain(name: &str, argv: &[&str], memory_bytes: u64, cgroup: String, netns: NetNamespace) -> NodeSpec {
        NodeSpec {
            name: name.into(),
            root: Root::Host,
            argv: argv.iter().map(|word| word.to_string()).collect(),
            env: Vec::new(),
            cwd: "/".into(),
            user: (0, 0),
            hostname: None,
            stop_signal: None,
            hosts: Vec::new(),
            files: Vec::new(),
            texts: Vec::new(),
            tools: Vec::new(),
            memory_bytes,
            core: 0,
            cpus: 0..1,
            whole_cores: Vec::new(),
            cgroup,
            netns,
            disk: None,
            kept: None,
        }
    }
}

/// Directories that a root of the user's own must have, with their modes where they are missing.
const NEEDED: [(&str, u32); 9] = [
    ("dev", 0o755),
    ("etc", 0o755),
    ("out", 0o1777),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("var/log", 0o755),
];

/// Turns an image archive into a directory, once per run. Not to be called on the enclosure's thread, which cannot
/// have threads.
pub(crate) fn unpack(shared: &Shared, spec: &mut NodeSpec) -> Result<(), Error> {
    if let Root::OciArchive(archive) = &spec.root {
        let place = |n: usize| shared.state.join("images").join(n.to_string());
        let dir = shared.once.get(&format!("image {}", archive.display()), |n| {
            let unpacked = image::unpack(archive, &place(n).join("root"))?;
            let file = place(n).join("image.json");
            let text = serde_json::to_vec(&unpacked).map_err(io::Error::from);
            text.and_then(|text| fs::write(&file, text)).map_err(|e| Error::file("write", &file, e))?;
            Ok(place(n))
        })?;
        let file = dir.join("image.json");
        let read = fs::read(&file).and_then(|text| Ok(serde_json::from_slice(&text)?));
        spec.root = Root::Image(read.map_err(|e| Error::file("read", &file, e))?);
    }
    let Root::Image(image) = &spec.root else { return Ok(()) };
    image.check()?;
    let name = |e: &str| e.split('=').next().map(str::to_string);
    let is_missing = |e: &&String| e.contains('=') && spec.env.iter().all(|own| name(own) != name(e));
    let missing: Vec<_> = image.env.iter().filter(is_missing).cloned().collect();
    spec.env.extend(missing);
    Ok(())
}

/// Makes everything but the container: its root, and its disk, if it has one. Files are as the node has left them, if
/// this is not the `first` time. To be called on the enclosure's thread.
pub(crate) fn prepare(shared: &Shared, spec: &NodeSpec, first: bool) -> Result<(RootFs, Option<Volume>), Error> {
    let bundle = shared.staging.join("nodes").join(&spec.name);
    fs::create_dir_all(&bundle).map_err(|e| Error::file("make", &bundle, e))?;
    let (disk, writes) = match &spec.disk {
        Some(disk) => (Some(Volume::mount(disk, &bundle.join("disk"))?), bundle.join("disk")),
        None => (None, writes(shared, spec)),
    };
    let view = View::of(spec.netns.users(), bundle.join("as-owned"));
    if view.users.is_some() {
        fs::create_dir_all(&writes).map_err(|e| Error::file("make", &writes, e))?;
    }
    let writes = view.show(&writes)?;
    let writes = Writes { dir: &writes, on_disk: disk.is_some(), users: view.users };
    let root = root(shared, spec, &view, writes, &bundle.join("root"))?;
    if first {
        files(&root, spec)?;
    }
    bind_namespace(&spec.netns, &bundle.join("net"))?;
    if let Some(users) = view.users {
        bind_namespace(&**users, &bundle.join("user"))?;
    }

    let mut shown = shown_files(shared, spec)?;
    for (path, content) in &spec.tools {
        let tool = shared.once.get(&format!("tool {} {:p}", path.display(), *content), |n| {
            let file = shared.staging.join(format!("tool-{n}"));
            fs::write(&file, content)
                .and_then(|()| fs::set_permissions(&file, executable()))
                .map(|()| file.clone())
                .map_err(|e| Error::file("write", &file, e))
        })?;
        shown.push((tool, path.clone()));
    }
    // A view of all that is there, through which a node's root owns it.
    let staging = view.show(&shared.staging)?;
    for (file, _) in &mut shown {
        if let Ok(below) = file.strip_prefix(&shared.staging) {
            *file = staging.join(below);
        }
    }
    let cores = match &spec.whole_cores[..] {
        [] => spec.core.to_string(),
        whole => host::cores::listed(whole),
    };
    let parts = Parts {
        hostname: hostname(spec),
        root: &bundle.join("root"),
        netns: &bundle.join("net"),
        users: view.users.map(|users| (bundle.join("user"), users.root())),
        cgroup: &spec.cgroup,
        cores: &cores,
        memory_bytes: spec.memory_bytes,
        limit_swap: cgroup::limits_swap(),
        limit_sockets: cgroup::limits_sockets(),
        shown: &shown,
        process: bundle::process(&spec.argv, &environment(&spec.env), &spec.cwd, spec.user),
    };
    let config = bundle.join("config.json");
    let text = serde_json::to_string(&bundle::spec(parts)).map_err(io::Error::from);
    fs::write(&config, text.context(|| "cannot describe a container".into())?)
        .map_err(|e| Error::file("write", &config, e))?;
    Ok((root, disk))
}

/// The hostname of a node.
fn hostname(spec: &NodeSpec) -> &str {
    spec.hostname.as_deref().unwrap_or(&spec.name)
}

/// Where a node without a disk has what it writes.
pub(crate) fn writes(shared: &Shared, spec: &NodeSpec) -> PathBuf {
    spec.kept.clone().unwrap_or_else(|| shared.state.join("nodes").join(&spec.name))
}

/// Where programs of a node look for others, unless it says something else.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// `env` with what every program expects.
pub(crate) fn environment(env: &[String]) -> Vec<String> {
    let defaults = [("PATH", PATH), ("HOME", "/root")];
    let missing = |name: &str| !env.iter().any(|e| e.split('=').next() == Some(name));
    let defaults =
        defaults.into_iter().filter(|(name, _)| missing(name)).map(|(name, value)| format!("{name}={value}"));
    env.iter().cloned().chain(defaults).collect()
}

fn executable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

/// Mounts the root file system of a node at `target`.
fn root(shared: &Shared, spec: &NodeSpec, view: &View<'_>, writes: Writes<'_>, target: &Path) -> Result<RootFs, Error> {
    match &spec.root {
        Root::Host => over_host(shared, None, view, writes, target),
        Root::Image(image) if image.over.is_some() => {
            over_host(shared, Some(&view.show(&image.root)?), view, writes, target)
        }
        Root::Image(image) => whole(&[view.show(&image.root)?], writes, target),
        Root::OciArchive(_) => unreachable!("unpack() has made a directory of it"),
        Root::Dir(dir) => {
            let unusable = |e: io::Error| {
                Error::Input(format!("node {}: its root {} cannot be used: {e}", spec.name, dir.display()))
            };
            let rights = Rights::of_caller(dir);
            let opened = Dir::open(dir).map_err(unusable)?;
            drop(rights);
            let (here, host) = (rustix::fs::fstat(&opened), rustix::fs::stat("/"));
            let (here, host) = (here.map_err(|e| unusable(e.into()))?, host.map_err(|e| unusable(e.into()))?);
            if (here.st_dev, here.st_ino) == (host.st_dev, host.st_ino) {
                let what = "is not a directory of its own; for the host's root leave `root` out";
                return Err(Error::Input(format!("node {}: its root {} {what}", spec.name, dir.display())));
            }
            // This is what was opened, whatever is at its path by now.
            let place = target.with_file_name("root-of");
            fs::create_dir_all(&place).map_err(|e| Error::file("make", &place, e))?;
            bind(&opened, &place)?;
            if here.st_uid == 0 {
                return whole(&[view.show(&place)?], writes, target);
            }
            let layer = shared.once.get(&format!("root {}:{}", here.st_dev, here.st_ino), |n| {
                let layer = shared.staging.join(format!("root-mask-{n}"));
                host_view::over_directory(&layer, &place, (here.st_uid, here.st_gid)).map(|()| layer)
            })?;
            whole(&[view.show(&layer)?, view.show(&place)?], writes, target)
        }
    }
}

/// A root that is all in one directory, with what hides parts of it above.
fn whole(layers: &[PathBuf], writes: Writes<'_>, target: &Path) -> Result<RootFs, Error> {
    let root = RootFs::mount(layers, writes, target)?;
    for (path, mode) in NEEDED {
        root.ensure(Path::new(path), mode).map_err(|e| Error::file("make a directory in", target, e))?;
    }
    Ok(root)
}

/// The host's root, with the changes to it that an image has.
fn over_host(
    shared: &Shared,
    changes: Option<&Path>,
    view: &View<'_>,
    writes: Writes<'_>,
    target: &Path,
) -> Result<RootFs, Error> {
    let mask = shared.once.get("mask", |_| {
        let layer = shared.staging.join("mask");
        let hide: Vec<_> = shared.hide.iter().chain([&shared.state]).cloned().collect();
        host_view::over_host(&layer, &hide).map(|()| layer)
    })?;
    let below = Below { changes, aside: &target.with_file_name("below"), empty: &shared.staging.join("empty") };
    let mask = view.show(&mask)?;
    // Before more is mounted below it.
    let points = mounts::points()?;
    rootfs::over(&below, &[mask.clone(), view.show(Path::new("/"))?], Path::new(""), writes, target)?;
    let root = RootFs::at(target, writes.users)?;
    submounts(&root, &points, &mask, &below, view, writes, target)?;
    Ok(root)
}

/// Shows the host's file systems that are mounted below the directories shown, such as a `/usr` or `/opt` of its own.
///
/// An overlay does not look into mount points of its lower layers, so each gets an overlay of its own.
fn submounts(
    root: &RootFs,
    points: &[PathBuf],
    mask: &Path,
    below: &Below<'_>,
    view: &View<'_>,
    writes: Writes<'_>,
    target: &Path,
) -> Result<(), Error> {
    for point in points {
        let Ok(inside) = point.strip_prefix("/") else { continue };
        let hidden =
            [Some(mask), below.changes].into_iter().flatten().any(|layer| host_view::is_opaque(&layer.join(inside)));
        let shown = host_view::shows(inside) && !hidden && root.has_directory(inside);
        if !shown || !point.is_dir() {
            continue;
        }
        let layer = Some(mask.join(inside)).filter(|m| m.is_dir());
        let lower: Vec<_> = layer.into_iter().chain([view.show(point)?]).collect();
        let of_point = Writes { dir: &writes.dir.join(layer_of(inside)), ..writes };
        match rootfs::over(below, &lower, inside, of_point, &target.join(inside)) {
            // An exotic file system somewhere in /var is no reason to refuse: the node sees an empty directory there.
            Err(Error::Machine { .. }) if inside.components().count() > 1 => {}
            other => other?,
        }
    }
    Ok(())
}

/// A node's writes below a mount point of the host's lie in a directory of this name, also when the host's mounts
/// have become others.
fn layer_of(inside: &Path) -> String {
    let name = inside.to_string_lossy().replace('%', "%25").replace('/', "%2F");
    format!("mount-{name}")
}

/// The mount point of which such a directory holds what a node has written; none if it is another one.
pub(crate) fn mounted_inside(name: &std::ffi::CStr) -> Option<PathBuf> {
    let name = name.to_str().ok()?.strip_prefix("mount-")?;
    Some(name.replace("%2F", "/").replace("%25", "%").into())
}

/// Puts the node's own files into its root.
fn files(root: &RootFs, spec: &NodeSpec) -> Result<(), Error> {
    let entries = spec.hosts.iter().map(|(name, address)| format!("{address}\t{name}\n"));
    let own = "127.0.0.1\tlocalhost\n::1\tip6-localhost ip6-loopback\n".to_string();
    let hosts: String = [own].into_iter().chain(entries).collect();
    for (path, text) in
        [("hosts", hosts), ("hostname", format!("{}\n", hostname(spec))), ("resolv.conf", String::new())]
    {
        let path = Path::new("/etc").join(path);
        root.write(&path, text.as_bytes())
            .context(|| format!("node {}: cannot write {}", spec.name, path.display()))?;
    }
    for (path, text) in &spec.texts {
        root.write(path, text.as_bytes()).context(|| format!("node {}: cannot write {}", spec.name, path.display()))?;
    }
    for (path, from) in &spec.files {
        root.copy(path, from).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => {
                Error::system(format!("node {}: cannot copy {}", spec.name, from.display()), e)
            }
            _ => Error::Input(format!("node {}: cannot put {} at {}: {e}", spec.name, from.display(), path.display())),
        })?;
    }
    Ok(())
}

/// Gives a namespace a path that exists inside the enclosure only, for the runtime.
fn bind_namespace(namespace: impl AsFd, path: &Path) -> Result<(), Error> {
    fs::write(path, "").map_err(|e| Error::file("write", path, e))?;
    bind(namespace, path)
}

/// Layers and files in the numbers of a node's user namespace, where it has one.
struct View<'a> {
    users: Option<&'a Arc<UserNamespace>>,
    /// Where they are mounted.
    dir: PathBuf,
    shown: Cell<usize>,
}

impl<'a> View<'a> {
    fn of(users: Option<&'a Arc<UserNamespace>>, dir: PathBuf) -> View<'a> {
        View { users, dir, shown: Cell::new(0) }
    }

    /// Where a directory of the enclosure's is to be seen by the node; there itself, without a user namespace.
    fn show(&self, what: &Path) -> Result<PathBuf, Error> {
        let Some(users) = self.users else { return Ok(what.to_owned()) };
        let place = self.dir.join(self.shown.get().to_string());
        self.shown.set(self.shown.get() + 1);
        fs::create_dir_all(&place).map_err(|e| Error::file("make", &place, e))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, what, flags, Mode::empty()).map_err(|e| Error::file("open", what, e))?;
        users.show(opened.as_fd(), &place, what)?;
        Ok(place)
    }
}

/// Shows at a path what is open.
fn bind(opened: impl AsFd, path: &Path) -> Result<(), Error> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = rustix::mount::open_tree(opened, "", clone)
        .context(|| format!("cannot take hold of what is to be at {}", path.display()))?;
    rustix::mount::move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|e| Error::file("mount at", path, e))
}

/// The files in which the node sees its own machine, shared by nodes that are alike and have no disk.
fn shown_files(shared: &Shared, spec: &NodeSpec) -> Result<Vec<(PathBuf, PathBuf)>, Error> {
    let disk = spec.disk.as_ref().map(|disk| disk.device.as_path());
    let own = disk.and_then(Path::file_name).map_or(String::new(), |name| format!("-{}", name.to_string_lossy()));
    let (core, cpus, memory_bytes) = (spec.core, &spec.cpus, spec.memory_bytes);
    let name = format!("machine-{core}-{}-{}-{memory_bytes}{own}", cpus.start, cpus.end);
    let write = |_| {
        let dir = shared.staging.join(&name);
        let written = own_files::write(&dir, &Machine { core, cpus, memory_bytes, disk });
        written.map(|()| dir.clone()).map_err(|e| Error::file("write files into", &dir, e))
    };
    // They take a few milliseconds, and those who run already are reading them.
    let dir = if disk.is_none() { shared.once.get(&name, write)? } else { write(0)? };
    Ok(own_files::shown(&dir))
}
