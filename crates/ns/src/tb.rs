//! Every command that Emulab's `tb_compat` adds to ns, and what becomes of it here.

/// The way in which a command is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does what it says; how, if that differs.
    Done(&'static str),
    /// It is accepted and changes nothing, for this reason.
    Ignored(&'static str),
    /// A script that uses it is refused, for this reason.
    Refused(&'static str),
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Its words, as Emulab's manual writes them.
    pub usage: &'static str,
    /// The way in which it is carried out.
    pub fate: Fate,
}

/// The command of this name.
pub fn command(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|c| c.name == name)
}

const PLAN: &str = "what runs where is the plan's business";
const WIDE: &str = "links of the Internet are links like any other here: say what they do to packets";
const SHAPE: &str = "all links are shaped by the emulator";
const FEEDBACK: &str = "shares are kept, not estimated from earlier runs";
const ELAB: &str = "a testbed inside a testbed is not modelled";
const PLANETLAB: &str = "PlanetLab's own nodes are not modelled";
const BACKFILL: &str = "taken off the bandwidth, as traffic that never pauses; events set what is left";
const OML: &str = "OML's measurements are not there: write metrics";
const RADIO: &str = "radio is not modelled; a LAN with loss, jitter and delay is the nearest";

macro_rules! commands {
    ($($name:literal $usage:literal => $fate:ident($what:expr);)*) => {
        /// All commands, in alphabetical order.
        pub const COMMANDS: &[Command] = &[$(Command { name: $name, usage: $usage, fate: Fate::$fate($what) }),*];
    };
}

commands! {
    "tb-add-node-service-hook" "SERVICE …" => Refused("services of Emulab's own nodes are not there");
    "tb-analyze-store-mp" "…" => Refused(OML);
    "tb-bind-parent" "SUBNODE NODE" => Ignored(PLAN);
    "tb-elab-in-elab" "0|1" => Refused(ELAB);
    "tb-elab-in-elab-topology" "NAME" => Refused(ELAB);
    "tb-elabinelab-singlenet" "" => Refused(ELAB);
    "tb-feedback-vlan" "NODE LAN …" => Ignored(FEEDBACK);
    "tb-feedback-vlink" "LINK …" => Ignored(FEEDBACK);
    "tb-feedback-vnode" "NODE TYPE …" => Done("as `tb-set-hardware NODE TYPE`; shares are kept, not estimated");
    "tb-fix-current-resources" "0|1" => Ignored(PLAN);
    "tb-fix-interface" "NODE LINK INTERFACE" => Ignored("interfaces are eth0, eth1, … in the order of the links");
    "tb-fix-node" "NODE MACHINE" => Done("if the file of hardware has that machine: the node's class; else ignored");
    "tb-force-endnodeshaping" "0|1" => Ignored(SHAPE);
    "tb-make-hard-vtype" "NAME {TYPE …}" => Done("the first type that the file of hardware has");
    "tb-make-soft-vtype" "NAME {TYPE …}" => Done("the first type that the file of hardware has");
    "tb-make-weighted-vtype" "NAME WEIGHT {TYPE …}" => Done("the first type that the file of hardware has");
    "tb-proc-tarfiles" "COMMAND PAIRS" => Refused("it is a part of `tb-set-tarfiles`: use that");
    "tb-set-allowcolocate" "LINK 0|1" => Ignored(PLAN);
    "tb-set-colocate-factor" "N" => Done("the most nodes on one machine, for `diorama map`");
    "tb-set-cpu-usage" "1..5" => Ignored(PLAN);
    "tb-set-delay-capacity" "N" => Ignored("there are no delay nodes");
    "tb-set-delay-os" "OS" => Ignored("there are no delay nodes");
    "tb-set-dpdb" "0|1" => Refused("there is no database of the testbed for an experiment");
    "tb-set-elabinelab-attribute" "KEY VALUE" => Refused(ELAB);
    "tb-set-elabinelab-cvstag" "TAG" => Refused(ELAB);
    "tb-set-elabinelab-fw-type" "TYPE" => Refused(ELAB);
    "tb-set-elabinelab-role-attribute" "ROLE KEY VALUE" => Refused(ELAB);
    "tb-set-encapsulate" "0|1" => Ignored("frames are charged as on a wire of their own");
    "tb-set-endnodeshaping" "LINK 0|1" => Ignored(SHAPE);
    "tb-set-fw-style" "NODE STYLE" => Refused("there is no firewall: nothing gets out of an experiment");
    "tb-set-hardware" "NODE TYPE" => Done("the class of machine that the file of hardware has for it");
    "tb-set-inner-elab-eid" "NAME" => Refused(ELAB);
    "tb-set-ip" "NODE ADDRESS" => Done("");
    "tb-set-ip-interface" "NODE OTHER ADDRESS" => Done("");
    "tb-set-ip-lan" "NODE LAN ADDRESS" => Done("");
    "tb-set-ip-link" "NODE LINK ADDRESS" => Done("");
    "tb-set-ip-routing" "none|ospf" => Done("as `rtproto`: routes are the shortest by delay, and do not change");
    "tb-set-ipassign-args" "WORDS" => Ignored("addresses are given out in the order of the links");
    "tb-set-jail-os" "OS" => Ignored("a node's files are what `tb-set-node-os` says");
    "tb-set-lan-accesspoint" "LAN NODE" => Refused(RADIO);
    "tb-set-lan-backfill" "LAN BANDWIDTH" => Done(BACKFILL);
    "tb-set-lan-est-bandwidth" "LAN BANDWIDTH" => Ignored(PLAN);
    "tb-set-lan-loss" "LAN LOSS" => Done("");
    "tb-set-lan-protocol" "LAN PROTOCOL" => Refused(RADIO);
    "tb-set-lan-setting" "LAN KEY VALUE" => Refused(RADIO);
    "tb-set-lan-simplex-backfill" "LAN NODE TO FROM" => Done(BACKFILL);
    "tb-set-lan-simplex-params" "LAN NODE TODELAY TOBW TOLOSS FROMDELAY FROMBW FROMLOSS" => Done("");
    "tb-set-link-backfill" "LINK BANDWIDTH, or NODE NODE BANDWIDTH" => Done(BACKFILL);
    "tb-set-link-encap" "LINK STYLE" => Ignored("frames are charged as on a wire of their own");
    "tb-set-link-est-bandwidth" "LINK BANDWIDTH" => Ignored(PLAN);
    "tb-set-link-failure-action" "LINK fatal|nonfatal" => Ignored("links fail only when events say so");
    "tb-set-link-layer" "LINK 1|2" => Ignored("every link is one of Ethernet");
    "tb-set-link-loss" "LINK LOSS, or NODE NODE LOSS" => Done("");
    "tb-set-link-protocol" "LINK PROTOCOL" => Refused(RADIO);
    "tb-set-link-simplex-backfill" "LINK NODE BANDWIDTH" => Done(BACKFILL);
    "tb-set-link-simplex-params" "LINK NODE DELAY BW LOSS" => Done("");
    "tb-set-mem-usage" "1..5" => Ignored(PLAN);
    "tb-set-modelnet-physnodes" "CORES EDGES" => Ignored("the emulator is one thread");
    "tb-set-multiplexed" "LINK 0|1" => Ignored("every link is a pipe of the emulator");
    "tb-set-netmask" "LINK MASK" => Done("of a LAN with an address that was chosen; else ignored");
    "tb-set-node-cmdline" "NODE TEXT" => Done("no kernel is given it: programs have it as the variable CMDLINE");
    "tb-set-node-deltas" "NODE FILE…" => Refused("bring them into an image, and name it in the file of hardware");
    "tb-set-node-failure-action" "NODE fatal|nonfatal|ignore" => Done("whether its program may end badly");
    "tb-set-node-id" "NODE N" => Ignored("nodes are known by their names");
    "tb-set-node-inner-elab-role" "NODE ROLE" => Refused(ELAB);
    "tb-set-node-lan-backfill" "NODE LAN BANDWIDTH" => Done(BACKFILL);
    "tb-set-node-lan-bandwidth" "NODE LAN BANDWIDTH" => Done("");
    "tb-set-node-lan-delay" "NODE LAN DELAY" => Done("");
    "tb-set-node-lan-est-bandwidth" "NODE LAN BANDWIDTH" => Ignored(PLAN);
    "tb-set-node-lan-loss" "NODE LAN LOSS" => Done("");
    "tb-set-node-lan-params" "NODE LAN DELAY BW LOSS" => Done("");
    "tb-set-node-lan-setting" "LAN NODE KEY VALUE" => Refused(RADIO);
    "tb-set-node-loadlist" "NODE OS…" => Ignored("a node's files are what `tb-set-node-os` says");
    "tb-set-node-memory-size" "NODE MIB" => Done("the memory of its class of machine, for this node");
    "tb-set-node-os" "NODE OS" => Done("the root file system that the file of hardware has for it");
    "tb-set-node-plab-plcnet" "NODE LINK" => Refused(PLANETLAB);
    "tb-set-node-plab-role" "NODE ROLE" => Refused(PLANETLAB);
    "tb-set-node-routable-ip" "NODE 0|1" => Ignored("nothing outside the run can reach a node");
    "tb-set-node-rpms" "NODE FILE…" => Refused("install packages into an image, and name it in the file of hardware");
    "tb-set-node-service" "SERVICE …" => Refused("services of Emulab's own nodes are not there");
    "tb-set-node-sharingmode" "NODE MODE" => Ignored(PLAN);
    "tb-set-node-startcmd" "NODE COMMAND" => Done("by `sh -c`, inside the node");
    "tb-set-node-startup" "NODE COMMAND" => Done("as `tb-set-node-startcmd`");
    "tb-set-node-tarfiles" "NODE /DIRECTORY FILE…" => Done("files of the script's folder, by their last name");
    "tb-set-node-usesharednode" "NODE" => Ignored(PLAN);
    "tb-set-nonfs" "0|1" => Ignored("no directories are shared with nodes");
    "tb-set-noshaping" "LINK 0|1" => Done("1: no limit of bandwidth");
    "tb-set-oml-mp" "…" => Refused(OML);
    "tb-set-oml-server" "NODE" => Refused(OML);
    "tb-set-oml-use-control" "0|1" => Refused(OML);
    "tb-set-security-level" "LEVEL" => Ignored("nothing gets out of an experiment, whatever the level");
    "tb-set-sim-os" "OS" => Ignored("there are no nodes that simulate others");
    "tb-set-switch-fabric" "LINK NAME" => Ignored(PLAN);
    "tb-set-sync-server" "NODE" => Done("it serves barriers; all nodes have `emulab-sync` where Emulab has it");
    "tb-set-tarfiles" "/DIRECTORY FILE…" => Done("for all nodes");
    "tb-set-use-oml" "…" => Refused(OML);
    "tb-set-uselatestwadata" "0|1" => Ignored(WIDE);
    "tb-set-useveth" "LINK 0|1" => Ignored("frames are charged as on a wire of their own");
    "tb-set-usewatunnels" "0|1" => Ignored(WIDE);
    "tb-set-vlink-emulation" "STYLE" => Ignored("frames are charged as on a wire of their own");
    "tb-set-wasolver-weights" "DELAY BW LOSS" => Ignored(WIDE);
    "tb-unset-elabinelab-attribute" "KEY" => Refused(ELAB);
    "tb-unset-elabinelab-role-attribute" "ROLE KEY" => Refused(ELAB);
    "tb-use-endnodeshaping" "0|1" => Ignored(SHAPE);
    "tb-use-ipassign" "0|1" => Ignored("addresses are given out in the order of the links");
    "tb-use-modelnet" "0|1" => Ignored("the emulator is of ModelNet's kind already");
    "tb-use-physnaming" "0|1" => Ignored("nodes are known by the names that the script gives them");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_listed_once_and_say_what_becomes_of_them() {
        for pair in COMMANDS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{pair:?}");
        }
        for command in COMMANDS {
            let (Fate::Ignored(why) | Fate::Refused(why)) = command.fate else { continue };
            assert!(!why.is_empty(), "{}", command.name);
        }
    }
}
