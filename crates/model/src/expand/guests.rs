//! Nodes that are whole machines.

use std::path::Path;

use guest::{Arch, Firmware};

use super::{Entry, key_span};
use crate::error::Problems;
use crate::experiment::{Action, Boot, Event, Flow, Guest, Node, Ready};
use crate::file;
use crate::paths;
use crate::tree::{Span, Value, shorten};

/// The keys of a node that are about a program, and not about a machine.
const OF_PROGRAMS: [(&str, &str); 9] = [
    ("run", "write either of them"),
    ("root", "its files are on its `disk`, or in its `initrd`"),
    ("env", "its kernel has a `cmdline`"),
    ("cwd", "it has directories of its own"),
    ("user", "it has users of its own"),
    ("congestion", "its kernel has its own"),
    ("tsc", "its counter of cycles is hidden from it"),
    ("ports", "they lead to containers only"),
    ("clock", "its clock is the machine's own"),
];

/// The length of a kernel's command line that every architecture takes.
const LONGEST_CMDLINE: usize = 1024;

/// The machine that a node is described to be; `None`, with a note, if there can be no such one.
pub(super) fn guest(
    read: &file::Guest,
    entry: &Entry<'_, file::Node>,
    dir: &Path,
    problems: &mut Problems,
) -> Option<Guest> {
    for (key, instead) in OF_PROGRAMS {
        if entry.node.get(key).is_some() {
            let what = format!("a guest is a machine and no program, and `{key}` is about one: remove it; {instead}");
            problems.add(entry.at(key), what);
        }
    }
    if entry.value.as_ref().and_then(|node| node.observe).is_some_and(|observe| observe.calls) {
        let what =
            "a guest's programs call its own kernel, where nobody counts: remove `calls`; `packets` can be counted";
        problems.add(key_span(entry.node, "observe", "calls"), what);
    }
    let at = |key: &str| key_value(entry, key);
    let mut found = |key: &str, path: &Option<String>| {
        let path = path.as_ref()?;
        match paths::in_folder(dir, path) {
            Ok(full) if full.is_file() => Some(full),
            Ok(_) => {
                problems.add(at(key), format!("`{}` is a directory: write the name of a file", shorten(path)));
                None
            }
            Err(what) => {
                problems.add(at(key), what);
                None
            }
        }
    };
    let (kernel, initrd) = (found("kernel", &read.kernel), found("initrd", &read.initrd));
    let disk = found("disk", &read.disk);
    let disk = disk.and_then(|path| {
        let format = paths::to_read(&path).map_err(Into::into).and_then(guest::format);
        match format {
            Ok(format) => Some((path, format)),
            Err(e) => {
                problems.add(at("disk"), format!("`{}` {e}", shorten(read.disk.as_deref().unwrap_or_default())));
                None
            }
        }
    });
    let arch = read.arch.map_or(Arch::default(), |arch| match arch {
        file::GuestArch::X86 => Arch::X86,
        file::GuestArch::Arm => Arch::Arm,
        file::GuestArch::Riscv => Arch::Riscv,
    });
    let mut wrong = |key: &str, what: String| problems.add(at(key), what);
    let boot = match (&read.kernel, &read.disk) {
        (None, None) => {
            wrong("guest", "a guest starts with a kernel or from a disk: write `kernel: FILE` or `disk: FILE`".into());
            return None;
        }
        (Some(_), _) => {
            if read.firmware.is_some() {
                wrong("firmware", "a guest with a `kernel` is started by that: remove `firmware` or `kernel`".into());
            }
            let cmdline = read.cmdline.clone().unwrap_or_default();
            if cmdline.len() > LONGEST_CMDLINE || cmdline.chars().any(char::is_control) {
                wrong("cmdline", format!("words for a kernel are one line of at most {LONGEST_CMDLINE} characters"));
            }
            kernel.map(|kernel| Boot::Kernel { kernel, initrd, cmdline })
        }
        (None, Some(_)) => {
            for (key, value) in [("initrd", &read.initrd), ("cmdline", &read.cmdline)] {
                if value.is_some() {
                    wrong(key, format!("`{key}` is for a kernel: write `kernel: FILE`, too, or remove it"));
                }
            }
            let firmware = match read.firmware {
                Some(file::GuestFirmware::Bios) if !arch.has_bios() => {
                    wrong("firmware", format!("there is no BIOS for {}: write `firmware: uefi`", arch.name()));
                    return None;
                }
                Some(file::GuestFirmware::Bios) => Firmware::Bios,
                Some(file::GuestFirmware::Uefi) => Firmware::Uefi,
                None if arch.has_bios() => Firmware::Bios,
                None => Firmware::Uefi,
            };
            if firmware == Firmware::Uefi && arch.uefi().is_none() {
                let what = "is started by its `kernel` only: nothing that boots from a disk is packaged for it";
                wrong("guest", format!("a guest of {} {what}", arch.name()));
                return None;
            }
            Some(Boot::Firmware(firmware))
        }
    };
    Some(Guest { arch, boot: boot?, disk })
}

/// The place of a value of the guest's, or of all of it.
fn key_value(entry: &Entry<'_, file::Node>, key: &str) -> Span {
    match entry.node.get("guest").and_then(|guest| guest.get(key)) {
        Some(_) => key_span(entry.node, "guest", key),
        None => entry.at("guest"),
    }
}

/// Notes what is asked of guests that only a container does.
pub(super) fn check(nodes: &[Node], flows: &[Flow], events: &[(Event, Span)], root: &Value, problems: &mut Problems) {
    let at = |key: &str| root.get(key).map_or(root.span, |value| value.span);
    let is_guest = |node: usize| nodes[node].guest.is_some();
    let program = "is a guest, and programs of an experiment run in containers only: its own are started by what it \
                   boots";
    for flow in flows {
        if let Some(node) = [flow.from, flow.to].into_iter().find(|node| is_guest(*node)) {
            problems.add(at("traffic"), format!("`{}`, an end of `{}`, {program}", nodes[node].name, flow.name));
        }
    }
    let serves = |node: &&Node| node.beside.iter().any(|beside| beside.program.starts_with("barrier."));
    if let Some(node) = nodes.iter().filter(serves).find(|node| node.guest.is_some()) {
        problems.add(at("barriers"), format!("`{}` {program}", node.name));
    }
    for (event, place) in events {
        let wrong = match &event.action {
            Action::Program { node, .. } if is_guest(*node) => Some((*node, program)),
            Action::Clock { node, .. } if is_guest(*node) => Some((*node, "is a guest, whose clock is its own")),
            Action::Hardware { node, .. } if is_guest(*node) => {
                Some((*node, "is a guest, whose memory does not change"))
            }
            _ => None,
        };
        if let Some((node, what)) = wrong {
            problems.add(*place, format!("`{}` {what}", nodes[node].name));
        }
    }
    for node in nodes.iter().filter(|node| node.guest.is_some()) {
        if matches!(node.ready, Some(Ready::Run { .. })) {
            let what = format!("`{}` {program}: write `tcp: PORT`", node.name);
            problems.add(root.get("nodes").and_then(|n| n.get(&node.group)).map_or(root.span, |n| n.span), what);
        }
    }
}
