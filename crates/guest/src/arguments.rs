//! The command line of QEMU for a guest.

use std::net::Ipv4Addr;

use crate::{Arch, DISK, FILES, FILES_TAG, Firmware, Format, INITRD, KERNEL, OUT, OUT_TAG, TRANSLATED_MIB};

/// A guest.
#[derive(Clone, Debug, PartialEq)]
pub struct Guest {
    /// Its name for itself.
    pub hostname: String,
    /// Its processors.
    pub arch: Arch,
    /// How many there are.
    pub cpus: u32,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
    /// How it starts.
    pub boot: Boot,
    /// The format of the disk at [`DISK`], if there is one.
    pub disk: Option<Format>,
    /// Its interfaces.
    pub wires: Vec<Wire>,
}

/// How a guest starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// With the kernel at [`KERNEL`], of Linux.
    Kernel {
        /// Whether there is an initial file system at [`INITRD`](crate::INITRD).
        initrd: bool,
        /// Words for the kernel, behind those that every guest's gets.
        cmdline: String,
    },
    /// As its firmware finds right, from its disk if that holds a system.
    Firmware(Firmware),
}

/// An interface of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The descriptor by which its frames come and go, one a call.
    pub descriptor: usize,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// The longest IP packet.
    pub mtu: u16,
    /// Its address.
    pub address: Ipv4Addr,
    /// Which bits of that are its network's.
    pub mask: Ipv4Addr,
    /// Where everything else goes.
    pub router: Option<Ipv4Addr>,
}

/// System calls that end QEMU, for no guest needs them. It gives up its rights only after it has said so, by calls that
/// are therefore not among them; nobody gets rights back in a node.
const SANDBOX: &str = "on,obsolete=deny,spawn=deny,resourcecontrol=deny";

/// Nobody: the user of QEMU once it has opened what it needs.
const USER: &str = "65534:65534";

/// The command line of QEMU, whose standard output is the guest's first serial port.
pub fn arguments(guest: &Guest) -> Vec<String> {
    let Guest { arch, cpus, .. } = guest;
    let mut words = vec![arch.program().to_owned()];
    let mut add = |words_of: &[&str]| words.extend(words_of.iter().map(|word| (*word).to_owned()));
    add(&["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot"]);
    add(&["-name", &guest.hostname, "-sandbox", SANDBOX, "-runas", USER]);
    add(&["-machine", arch.machine(), "-cpu", arch.processor(), "-smp", &cpus.to_string()]);
    add(&["-accel", &format!("tcg,thread=multi,tb-size={TRANSLATED_MIB}")]);
    add(&["-m", &format!("{}M", guest.memory_bytes >> 20)]);
    // Nothing of QEMU's is behind the console: no monitor, no escape character.
    add(&["-chardev", "stdio,id=console,signal=off,mux=off", "-serial", "chardev:console"]);
    match &guest.boot {
        Boot::Kernel { initrd, cmdline } => {
            add(&["-kernel", KERNEL, "-append", &words_for_kernel(guest, cmdline)]);
            if *initrd {
                add(&["-initrd", INITRD]);
            }
        }
        Boot::Firmware(firmware) => {
            if let (Firmware::Uefi, Some((file, _))) = (firmware, arch.uefi()) {
                add(&["-bios", file]);
            }
        }
    }
    if let Some(format) = guest.disk {
        add(&["-blockdev", &block(format)]);
        match format {
            // A BIOS boots such a disk from a drive for it.
            Format::Iso => add(&["-device", device_of_iso(*arch)]),
            _ => add(&["-device", "virtio-blk-pci,drive=disk,serial=disk"]),
        }
    }
    for (n, wire) in guest.wires.iter().enumerate() {
        add(&["-netdev", &format!("dgram,id=net{n},local.type=fd,local.str={}", wire.descriptor)]);
        // Some firmware has a program for each device that boots from the network; such a program is QEMU's package's.
        let mac = wire.mac.map(|byte| format!("{byte:02x}")).join(":");
        add(&["-device", &format!("virtio-net-pci,netdev=net{n},mac={mac},host_mtu={},romfile=", wire.mtu)]);
    }
    let shared = [(FILES, FILES_TAG, ",readonly=on"), (OUT, OUT_TAG, "")];
    for (path, tag, how) in shared {
        // Owners and modes that the guest gives are kept beside the files: they are not the files' own.
        add(&["-fsdev", &format!("local,id={tag},path={path},security_model=mapped-xattr,multidevs=remap{how}")]);
        add(&["-device", &format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}")]);
    }
    add(&["-device", "virtio-rng-pci"]);
    words
}

/// The disk, by names that leave nothing to what an image says: no format is guessed, and no other file opened.
fn block(format: Format) -> String {
    let file = format!(r#""file":{{"driver":"file","filename":"{DISK}","aio":"threads"}}"#);
    let direct = r#""cache":{"direct":true,"no-flush":false}"#;
    match format {
        Format::Qcow2 => format!(r#"{{"driver":"qcow2","node-name":"disk","backing":null,{direct},{file}}}"#),
        Format::Raw => format!(r#"{{"driver":"raw","node-name":"disk",{direct},{file}}}"#),
        Format::Iso => format!(r#"{{"driver":"raw","node-name":"disk","read-only":true,{file}}}"#),
    }
}

fn device_of_iso(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "ide-cd,drive=disk",
        Arch::Arm | Arch::Riscv => "virtio-blk-pci,drive=disk,serial=disk",
    }
}

/// Words for Linux: where its console is, that it does not stay where it has failed, and its address.
fn words_for_kernel(guest: &Guest, own: &str) -> String {
    let mut words = vec![format!("console={} panic=-1 net.ifnames=0{}", guest.arch.console(), guest.arch.words())];
    if let Some(wire) = guest.wires.first() {
        let router = wire.router.map(|router| router.to_string()).unwrap_or_default();
        // Address, server, router, mask, name, interface, and that nobody is asked (the kernel's nfsroot.rst).
        words.push(format!("ip={}::{router}:{}:{}:eth0:off", wire.address, wire.mask, guest.hostname));
    }
    words.extend((!own.is_empty()).then(|| own.to_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest() -> Guest {
        Guest {
            hostname: "vm".into(),
            arch: Arch::X86,
            cpus: 2,
            memory_bytes: 128 << 20,
            boot: Boot::Kernel { initrd: true, cmdline: "quiet".into() },
            disk: None,
            wires: vec![Wire {
                descriptor: 5,
                mac: [2, 0, 10, 0, 0, 1],
                mtu: 1500,
                address: Ipv4Addr::new(10, 0, 0, 1),
                mask: Ipv4Addr::new(255, 0, 0, 0),
                router: Some(Ipv4Addr::new(10, 255, 255, 254)),
            }],
        }
    }

    fn after(words: &[String], option: &str) -> Vec<String> {
        let places = words.iter().enumerate().filter(|(_, word)| *word == option);
        places.map(|(i, _)| words[i + 1].clone()).collect()
    }

    #[test]
    fn a_guest_is_told_who_it_is_and_where_its_console_is() {
        let words = arguments(&guest());
        assert_eq!(words[0], "qemu-system-x86_64");
        let told = "console=ttyS0 panic=-1 net.ifnames=0 no_timer_check \
                    ip=10.0.0.1::10.255.255.254:255.0.0.0:vm:eth0:off quiet";
        assert_eq!(after(&words, "-append"), [told]);
        assert_eq!(after(&words, "-netdev"), ["dgram,id=net0,local.type=fd,local.str=5"]);
        assert!(words.contains(&"virtio-net-pci,netdev=net0,mac=02:00:0a:00:00:01,host_mtu=1500,romfile=".into()));
        assert_eq!((after(&words, "-m"), after(&words, "-smp")), (vec!["128M".into()], vec!["2".into()]));
        let alone = Guest { wires: Vec::new(), arch: Arch::Arm, ..guest() };
        assert_eq!(after(&arguments(&alone), "-append"), ["console=ttyAMA0 panic=-1 net.ifnames=0 quiet"]);
    }

    #[test]
    fn every_guest_is_shut_in() {
        let from_disk = |format, firmware| Guest { boot: Boot::Firmware(firmware), disk: Some(format), ..guest() };
        let iso = from_disk(Format::Iso, Firmware::Bios);
        for guest in [guest(), iso, from_disk(Format::Qcow2, Firmware::Uefi), from_disk(Format::Raw, Firmware::Bios)] {
            let words = arguments(&guest);
            assert_eq!(after(&words, "-sandbox"), [SANDBOX]);
            assert_eq!((after(&words, "-monitor"), after(&words, "-runas")), (vec!["none".into()], vec![USER.into()]));
            assert!(words.contains(&"-nodefaults".into()) && words.contains(&"-no-user-config".into()));
            assert!(!words.iter().any(|word| word.contains("mon=") || word == "-qmp"));
            let disk = after(&words, "-blockdev");
            assert_eq!(disk.len(), usize::from(guest.disk.is_some()));
            assert!(
                disk.iter().all(|d| d.contains(r#""backing":null"#) || d.contains(r#""driver":"raw""#)),
                "{disk:?}"
            );
        }
    }

    #[test]
    fn a_disk_boots_by_the_firmware_that_is_asked_for() {
        let of = |arch, firmware| {
            let boot = Boot::Firmware(firmware);
            after(&arguments(&Guest { arch, boot, disk: Some(Format::Qcow2), ..guest() }), "-bios")
        };
        assert!(of(Arch::X86, Firmware::Bios).is_empty());
        assert_eq!(of(Arch::X86, Firmware::Uefi), ["/usr/share/ovmf/OVMF.fd"]);
        assert_eq!(of(Arch::Arm, Firmware::Uefi), ["/usr/share/qemu-efi-aarch64/QEMU_EFI.fd"]);
    }
}
