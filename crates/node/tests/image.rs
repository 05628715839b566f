//! Nodes whose root is an image archive.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::common::{World, io, with_each_runtime};
use diorama_node::{Error, Node, NodeSpec, Root};
use flate2::Compression;
use flate2::write::GzEncoder;

/// A layer: (path, content), where a content `-> X` is a symbolic link to X and none a directory.
fn layer(entries: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        let link = content.and_then(|c| c.strip_prefix(b"-> "));
        // Written as they are, also names that the library would refuse to write.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        match (link, content) {
            (Some(target), _) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                header.set_link_name(std::str::from_utf8(target).unwrap()).unwrap();
            }
            (_, Some(content)) => header.set_size(content.len() as u64),
            _ => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_size(0);
            }
        }
        header.set_cksum();
        let content = if link.is_some() { &[][..] } else { content.unwrap_or_default() };
        tar.append(&header, content).unwrap();
    }
    tar.into_inner().unwrap()
}

fn base() -> Vec<u8> {
    let read = |path: &str| fs::read(path).unwrap();
    let (shell, loader, libc) =
        (read("/bin/dash"), read("/lib64/ld-linux-x86-64.so.2"), read("/lib/x86_64-linux-gnu/libc.so.6"));
    layer(&[
        ("bin/", None),
        ("bin/sh", Some(&shell)),
        ("usr/", None),
        ("usr/lib64/", None),
        ("lib64", Some(b"-> /usr/lib64")),
        ("lib/x86_64-linux-gnu/", None),
        ("lib/x86_64-linux-gnu/libc.so.6", Some(&libc)),
        // Through the absolute link above: to the image's own /usr/lib64.
        ("lib64/ld-linux-x86-64.so.2", Some(&loader)),
        ("data/", None),
        ("data/old", Some(b"old")),
        ("data/kept", Some(b"kept")),
        ("cache/", None),
        ("cache/stale", Some(b"stale")),
        ("turned", Some(b"a file")),
    ])
}

fn second() -> Vec<u8> {
    layer(&[
        ("data/.wh.old", Some(b"")),
        ("cache/fresh", Some(b"fresh")),
        ("cache/.wh..wh..opq", Some(b"")),
        ("turned/", None),
        ("turned/into", Some(b"a directory")),
    ])
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(content).unwrap();
    gzip.finish().unwrap()
}

const CONFIG: &[u8] = br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]},
    "config":{"Env":["COLOUR=green","SIZE=small"]}}"#;

/// An archive as `docker save` writes it.
/// A compressed layer of entries that are zeros: (name, kind, length).
fn bomb(entries: &[(&str, u8, u64)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, kind, length) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_entry_type(tar::EntryType::new(*kind));
        header.set_size(*length);
        header.set_cksum();
        tar.append(&header, std::io::repeat(0).take(*length)).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn docker(path: &Path, layers: &[Vec<u8>]) {
    let mut tar = tar::Builder::new(File::create(path).unwrap());
    let mut add = |name: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content).unwrap();
    };
    let names: Vec<_> = (0..layers.len()).map(|n| format!("{n}/layer.tar")).collect();
    names.iter().zip(layers).for_each(|(name, layer)| add(name, layer));
    add("config.json", CONFIG);
    add("manifest.json", serde_json::json!([{"Config": "config.json", "Layers": names}]).to_string().as_bytes());
    tar.finish().unwrap();
}

/// An OCI layout with compressed layers, whose index points to another index, with an image for another machine first.
fn oci(path: &Path, layers: &[Vec<u8>]) {
    let mut tar = tar::Builder::new(File::create(path).unwrap());
    let mut add = |name: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content).unwrap();
    };
    let digest = |n: usize| format!("{n:064x}");
    let descriptor = |kind: &str, n: usize, more: serde_json::Value| {
        let mut all = serde_json::json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "size": 1,
            "digest": format!("sha256:{}", digest(n))});
        all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        all
    };
    let none = serde_json::json!({});
    let mut blob = |n: usize, content: &[u8]| add(&format!("./blobs/sha256/{}", digest(n)), content);
    let list: Vec<_> = (0..layers.len()).map(|n| descriptor("layer.v1.tar+gzip", 10 + n, none.clone())).collect();
    layers.iter().enumerate().for_each(|(n, layer)| blob(10 + n, &gzip(layer)));
    blob(1, CONFIG);
    let manifest = serde_json::json!({"schemaVersion": 2, "layers": list,
        "config": descriptor("config.v1+json", 1, none.clone())});
    blob(2, manifest.to_string().as_bytes());
    let platform = |name: &str| serde_json::json!({"platform": {"architecture": name, "os": "linux"}});
    let inner = serde_json::json!({"schemaVersion": 2, "manifests": [
        descriptor("manifest.v1+json", 9, platform("arm64")), descriptor("manifest.v1+json", 2, platform("amd64"))]});
    blob(3, inner.to_string().as_bytes());
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [descriptor("index.v1+json", 3, none)]});
    add("index.json", index.to_string().as_bytes());
    tar.finish().unwrap();
}

fn spec(world: &World, name: &str, archive: PathBuf, script: &str) -> NodeSpec {
    let mut spec = world.spec(name, script);
    spec.root = Root::OciArchive(archive);
    spec
}

#[test]
fn both_kinds_of_archive_become_the_nodes_root() {
    let dir = tempfile::tempdir().unwrap();
    let (first, other) = (dir.path().join("docker.tar"), dir.path().join("oci.tar"));
    docker(&first, &[base(), second()]);
    oci(&other, &[base(), second()]);
    with_each_runtime(|world| {
        for (name, archive) in [("docker", &first), ("oci", &other)] {
            let script = "echo /data/* /cache/* /turned/*; echo $COLOUR $SIZE; echo more > /data/more";
            let mut node = spec(&world, name, archive.clone(), script);
            node.env.push("COLOUR=red".into());
            assert_eq!(world.run_spec(node).ok(), "/data/kept /cache/fresh /turned/into\nred small");
            let again = spec(&world, &format!("{name}-2"), archive.clone(), "echo /data/*");
            assert_eq!(world.run_spec(again).ok(), "/data/kept", "one node's files reached another");
        }
    });
}

#[test]
fn a_layer_cannot_write_outside_its_root() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    let target = format!("-> {}", outside.display());
    let place = outside.to_string_lossy();
    let archive = dir.path().join("evil.tar");
    let links = layer(&[
        ("evil", Some(target.as_bytes())),
        ("evil/file", Some(b"through an absolute link")),
        ("up", Some(b"-> ../../../../../../../../../..")),
        (&format!("up{place}/second"), Some(b"through a relative link")),
        (&format!("{place}/third"), Some(b"an absolute path")),
    ]);
    let whiteouts = layer(&[("evil/.wh.kept", Some(b"")), ("evil/.wh..wh..opq", Some(b""))]);
    docker(&archive, &[base(), links, whiteouts]);
    let dots = dir.path().join("dots.tar");
    docker(&dots, &[base(), layer(&[("../../../../../../../../../../tmp/escaped", Some(b"x"))])]);
    with_each_runtime(|world| {
        // Whether the image can be used at all is its own affair: nothing outside may change.
        let _ = Node::create(world.enclosure(), &world.runtime, spec(&world, "evil", archive.clone(), "true"), io().0);
        let error = Node::create(world.enclosure(), &world.runtime, spec(&world, "dots", dots.clone(), "true"), io().0);
        assert!(error.is_err_and(|e| e.to_string().contains("..")), "`..` in a layer is refused");
        let left: Vec<_> = fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["kept"]);
        assert!(!Path::new("/tmp/escaped").exists());
    });
}

#[test]
fn what_is_no_image_is_named_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("text.tar"), "no tar file at all, ".repeat(100)).unwrap();
    fs::write(path("tree.tar"), layer(&[("some/file", Some(b"x"))])).unwrap();
    docker(&path("zstd.tar"), &[[&[0x28, 0xb5, 0x2f, 0xfd][..], &[0; 600]].concat()]);
    docker(&path("zeros.tar"), &[bomb(&[("big", b'0', 600 << 20)])]);
    docker(&path("names.tar"), &[bomb(&[("long", b'L', 400 << 20)])]);
    docker(&path("behind.tar"), &[bomb(&[("some", b'0', 64 << 20), ("long", b'L', 64 << 20)])]);
    docker(&path("records.tar"), &[bomb(&[("long", b'x', 400 << 20)])]);
    docker(&path("many.tar"), &vec![layer(&[]); 600]);
    docker(&path("cut.tar"), &[gzip(&base())[..1000].to_vec()]);
    let cases = [
        ("text.tar", "not a tar file"),
        ("tree.tar", "neither"),
        ("zstd.tar", "gzip"),
        ("zeros.tar", "200 times more"),
        ("names.tar", "too long"),
        ("behind.tar", "too long"),
        ("records.tar", "too long"),
        ("many.tar", "600 layers"),
        ("cut.tar", ""),
        ("none.tar", "No such"),
    ];
    with_each_runtime(|world| {
        for (name, words) in cases {
            let spec = spec(&world, "node", path(name), "true");
            let error = Node::create(world.enclosure(), &world.runtime, spec, io().0).expect_err(name);
            let text = error.to_string();
            assert!(matches!(error, Error::Input(_)) && text.contains(words) && text.contains(name), "{text}");
        }
    });
}
