//! Images of what nodes have written: saved, unpacked, and used as the roots of others.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{io, with_each_runtime};
use diorama_node::{About, Base, Node, Root, Saved, Unpacked, save, unpack};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};

/// A directory as a node's writes lie in, and an image that is made of it.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        // Attributes of files are not to be had everywhere below /tmp.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::create_dir_all(dir.path().join("writes/upper")).unwrap();
        Desk(dir)
    }

    fn upper(&self, path: &str) -> PathBuf {
        self.0.path().join("writes/upper").join(path)
    }

    fn file(&self, path: impl AsRef<Path>, text: &[u8]) {
        let path = self.upper("").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn whiteout(&self, path: &str) {
        fs::create_dir_all(self.upper(path).parent().unwrap()).unwrap();
        mknodat(CWD, self.upper(path), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }

    fn opaque(&self, path: &str) {
        fs::create_dir_all(self.upper(path)).unwrap();
        setxattr(self.upper(path), "trusted.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    }

    /// Saves it below the name `to`.
    fn save(&self, base: &Base, to: &str) -> Saved {
        let writes: OwnedFd = File::open(self.0.path().join("writes")).unwrap().into();
        let about = About { name: "test".into(), source: "a test".into() };
        save(&self.0.path().join(to), base, &writes, &about, &|| Ok(())).unwrap()
    }

    fn unpack(&self, from: &str, to: &str) -> Unpacked {
        unpack(&self.0.path().join(from), &self.0.path().join(to).join("root")).unwrap()
    }

    /// Begins anew with what is written.
    fn clear(&self) {
        fs::remove_dir_all(self.upper("")).unwrap();
        fs::create_dir(self.upper("")).unwrap();
    }
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 64];
    let length = rustix::fs::lgetxattr(path, name, &mut value).ok()?;
    Some(value[..length].to_vec())
}

#[test]
fn all_that_a_node_can_write_comes_back_as_it_was() {
    let desk = Desk::new();
    let odd = OsStr::from_bytes(b"odd \xff\n\\:,name");
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    desk.file(Path::new("srv").join(odd), b"odd");
    desk.file(&long, b"long");
    let longest = OsStr::from_bytes(&[0xff; 150]).to_owned();
    desk.file(Path::new("srv").join(&longest), b"no text");
    desk.file("srv/first", b"one file");
    fs::hard_link(desk.upper("srv/first"), desk.upper("srv/second")).unwrap();
    symlink("/etc/shadow", desk.upper("srv/link")).unwrap();
    symlink("x".repeat(300), desk.upper("srv/far")).unwrap();
    mknodat(CWD, desk.upper("srv/fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    std::os::unix::fs::chown(desk.upper("srv/fifo"), Some(3), Some(4)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(desk.upper("srv/socket")).unwrap();
    // More stretches than one header holds, and then some more than one block after it.
    let sparse = File::create(desk.upper("srv/sparse")).unwrap();
    (0..40u64).for_each(|n| sparse.write_all_at(format!("data {n}").as_bytes(), n << 20).unwrap());
    sparse.set_len(1 << 30).unwrap();
    File::create(desk.upper("srv/hole")).unwrap().set_len(1 << 30).unwrap();
    let owned = desk.upper("srv/owned");
    fs::write(&owned, "owned").unwrap();
    std::os::unix::fs::chown(&owned, Some(70_000), Some(3_000_000)).unwrap();
    fs::set_permissions(&owned, fs::Permissions::from_mode(0o6751)).unwrap();
    setxattr(&owned, "user.binary", b"a\n12 b=\0\xff\n", XattrFlags::empty()).unwrap();
    setxattr(desk.upper("srv"), "user.of-a-directory", b"yes", XattrFlags::empty()).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    File::open(&owned).unwrap().set_modified(old).unwrap();
    fs::create_dir(desk.upper("srv/shut")).unwrap();
    fs::write(desk.upper("srv/shut/in"), "in").unwrap();
    fs::set_permissions(desk.upper("srv/shut"), fs::Permissions::from_mode(0o1500)).unwrap();
    File::open(desk.upper("srv/shut")).unwrap().set_modified(old).unwrap();
    // Files of one run, or of the node itself, and such as no image can hold.
    for path in ["out/log", "tmp/x", "run/x.pid", "var/tmp/x", "etc/hosts", "etc/hostname", ".diorama/x", "dev/x"] {
        desk.file(path, b"of one run");
    }
    desk.file("srv/.wh.trap", b"x");
    desk.file("etc/own", b"kept");

    let empty = desk.0.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let saved = desk.save(&Base::Directory(empty.clone()), "image");
    assert_eq!(saved.changed, Vec::<PathBuf>::new());
    assert!(saved.left_out.len() == 1 && saved.left_out[0].starts_with("srv/.wh.trap: "), "{:?}", saved.left_out);
    assert!(saved.bytes < 1 << 20, "holes are not stored: {}", saved.bytes);
    assert_eq!(saved.over, None);
    let again = desk.save(&Base::Directory(empty), "again");
    assert_eq!(again.digest, saved.digest, "the same files are the same image");

    let root = desk.unpack("image", "tree").root;
    let at = |path: &str| root.join(path);
    assert_eq!(fs::read(root.join("srv").join(odd)).unwrap(), b"odd");
    assert_eq!(fs::read(root.join("srv").join(longest)).unwrap(), b"no text");
    assert_eq!(fs::read(at(&long)).unwrap(), b"long");
    let (first, second) = (at("srv/first").metadata().unwrap(), at("srv/second").metadata().unwrap());
    assert_eq!((first.ino(), first.nlink()), (second.ino(), 2));
    assert_eq!(fs::read_link(at("srv/link")).unwrap(), Path::new("/etc/shadow"));
    assert_eq!(fs::read_link(at("srv/far")).unwrap().as_os_str().len(), 300);
    let fifo = at("srv/fifo").symlink_metadata().unwrap();
    assert!(fifo.file_type().is_fifo() && (fifo.mode() & 0o7777, fifo.uid(), fifo.gid()) == (0o640, 3, 4));
    let sparse = File::open(at("srv/sparse")).unwrap();
    for n in 0..40u64 {
        let mut text = vec![0; format!("data {n}").len()];
        sparse.read_exact_at(&mut text, n << 20).unwrap();
        assert_eq!(text, format!("data {n}").as_bytes());
    }
    for name in ["srv/sparse", "srv/hole"] {
        let found = at(name).metadata().unwrap();
        assert!(found.len() == 1 << 30 && found.blocks() < 2000, "{name}: {} blocks", found.blocks());
    }
    let owned = at("srv/owned").metadata().unwrap();
    assert_eq!((owned.uid(), owned.gid(), owned.mode() & 0o7777), (70_000, 3_000_000, 0o6751));
    assert_eq!(attribute(&at("srv/owned"), "user.binary").unwrap(), b"a\n12 b=\0\xff\n");
    assert_eq!(attribute(&at("srv"), "user.of-a-directory").unwrap(), b"yes");
    for name in ["srv/owned", "srv/shut"] {
        assert_eq!(at(name).metadata().unwrap().modified().unwrap(), old, "{name}");
    }
    assert_eq!(at("srv/shut").metadata().unwrap().mode() & 0o7777, 0o1500);
    for gone in ["out/log", "tmp/x", "run/x.pid", "var/tmp/x", "etc/hosts", "etc/hostname", ".diorama", "dev/x"] {
        assert!(!at(gone).exists(), "{gone}");
    }
    assert!(!at("srv/socket").exists() && at("etc/own").exists() && at("tmp").is_dir());
}

#[test]
fn what_a_node_deletes_is_deleted_in_the_layers_below_and_in_no_others() {
    let desk = Desk::new();
    let base = desk.0.path().join("base");
    for name in ["a/gone", "a/kept", "d/old", "e/x/deep", "f"] {
        fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
        fs::write(base.join(name), name).unwrap();
    }
    desk.whiteout("a/gone");
    desk.opaque("d");
    desk.file("d/new", b"new");
    desk.whiteout("e");
    desk.file("f/now", b"a directory");
    desk.save(&Base::Directory(base), "first");
    desk.clear();
    // The second node finds these as the first has left them.
    desk.whiteout("d/new");
    desk.file("e/again", b"again");
    desk.file("a/kept", b"changed");
    let layout = desk.0.path().join("first");
    desk.save(&Base::Image(layout), "second");
    let root = desk.unpack("second", "whole").root;
    let names = |dir: &str| {
        let names = fs::read_dir(root.join(dir)).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["a", "d", "e", "f"]);
    assert_eq!((names("a"), names("d"), names("e"), names("f")), {
        let list = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        (list(&["kept"]), list(&[]), list(&["again"]), list(&["now"]))
    });
    assert_eq!(fs::read(root.join("a/kept")).unwrap(), b"changed");
}

#[test]
fn over_a_host_deletions_stay_marked_and_nothing_from_outside_is_a_mark() {
    let desk = Desk::new();
    desk.whiteout("opt/gone");
    desk.opaque("opt/emptied");
    desk.file("opt/emptied/new", b"new");
    desk.whiteout("opt/replaced");
    let saved = desk.save(&Base::Host, "first");
    assert_eq!(saved.over.as_ref().map(|host| host.name().contains(std::env::consts::ARCH)), Some(true));
    desk.clear();
    desk.file("opt/replaced/inner", b"a directory where a file was deleted");
    let saved = desk.save(&Base::Image(desk.0.path().join("first")), "second");
    assert!(saved.over.is_some(), "an image over an image over the host lies over the host");
    let unpacked = desk.unpack("second", "tree");
    assert!(unpacked.over.is_some());
    let at = |path: &str| unpacked.root.join(path);
    let mark = at("opt/gone").symlink_metadata().unwrap();
    assert!(mark.file_type().is_char_device() && mark.rdev() == 0);
    let opaque = |path: &str| attribute(&at(path), "trusted.overlay.opaque");
    assert_eq!((opaque("opt/emptied"), opaque("opt/replaced")), (Some(b"y".to_vec()), Some(b"y".to_vec())));
    assert_eq!(opaque("opt"), None);
    assert!(at("opt/emptied/new").exists() && at("opt/replaced/inner").exists());
}

#[test]
fn marks_that_an_archive_brings_along_are_not_believed() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    let header = |kind, size| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header
    };
    let attributes = [("SCHILY.xattr.trusted.overlay.redirect", &b"/root"[..]), ("SCHILY.xattr.user.kept", b"yes")];
    tar.append_pax_extensions(attributes).unwrap();
    tar.append_data(&mut header(tar::EntryType::Directory, 0), "sly", &b""[..]).unwrap();
    let mut device = header(tar::EntryType::Char, 0);
    device.set_device_major(0).unwrap();
    device.set_device_minor(0).unwrap();
    tar.append_data(&mut device, "etc", &b""[..]).unwrap();
    tar.append_data(&mut header(tar::EntryType::Regular, 0), "sly/.wh...", &b""[..]).unwrap();
    let layer = tar.into_inner().unwrap();
    let archive = dir.path().join("sly.tar");
    let mut tar = tar::Builder::new(File::create(&archive).unwrap());
    let config = br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
    let manifest = br#"[{"Config":"config.json","Layers":["layer.tar"]}]"#;
    for (name, content) in [("layer.tar", &layer[..]), ("config.json", config), ("manifest.json", manifest)] {
        let size = content.len() as u64;
        tar.append_data(&mut header(tar::EntryType::Regular, size), name, content).unwrap();
    }
    tar.into_inner().unwrap().flush().unwrap();
    let root = unpack(&archive, &dir.path().join("root")).unwrap().root;
    assert_eq!(attribute(&root.join("sly"), "trusted.overlay.redirect"), None);
    assert_eq!(attribute(&root.join("sly"), "user.kept").unwrap(), b"yes");
    assert!(!root.join("etc").exists());
}

#[test]
fn a_node_has_what_another_has_left() {
    with_each_runtime(|world| {
        let script = "set -e; rm /etc/profile; echo new > /opt/new; mkdir /srv/site; echo page > /srv/site/index; \
                      ln /opt/new /opt/other; rm -rf /etc/default; mkdir /etc/default; echo own > /etc/default/own; \
                      echo log > /out/log; echo x > /tmp/x";
        let (node, _) = world.create(world.spec("first", script));
        node.start().unwrap();
        assert!(node.wait(Some(crate::common::PATIENCE)).unwrap().success());
        let about = About { name: "test".into(), source: "first".into() };
        let layout = world.state.path().join("oci");
        let saved = save(&layout, &Base::Host, &node.written().unwrap(), &about, &|| Ok(())).unwrap();
        assert!(saved.left_out.is_empty() && saved.changed.is_empty(), "{saved:?}");
        node.delete().unwrap();
        let image = unpack(&layout, &world.state.path().join("tree")).unwrap();
        for name in ["second", "third"] {
            let script = "ls /etc/profile 2>/dev/null; cat /opt/new /opt/other /srv/site/index; \
                          ls /etc/default /out /tmp; cat /etc/hostname; test -x /bin/sh && echo programs; \
                          ls /etc/shadow /root/.ssh 2>/dev/null; \
                          echo mine > /opt/new";
            let mut spec = world.spec(name, script);
            spec.root = Root::Image(image.clone());
            let wanted = format!("new\nnew\npage\n/etc/default:\nown\n\n/out:\n\n/tmp:\n{name}\nprograms");
            assert_eq!(world.run_spec(spec).ok(), wanted);
        }
        // And one that another host has made is refused.
        let other = serde_json::json!({"root": image.root, "env": [], "over": "beos 5 ppc"});
        let mut spec = world.spec("other", "true");
        spec.root = Root::Image(serde_json::from_value(other).unwrap());
        let error = Node::create(world.enclosure(), &world.runtime, spec, io().0).unwrap_err().to_string();
        assert!(error.contains("beos 5 ppc"), "{error}");
    });
}
