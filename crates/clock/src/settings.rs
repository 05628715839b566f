//! Settings of the kernel that programs make, and that are not what these programs take them for.
//!
//! The image translates them (`guest/settings`). Of what it cannot translate it tells the injector, by the line of its
//! tables that is about it, and the injector keeps that for whoever asks.

include!(concat!(env!("OUT_DIR"), "/settings.rs"));

/// Bit that marks a line of `sysctls.h` (`guest/settings/settings.h`).
const OF_SYSCTL: u64 = 0x10000;

/// A setting that a program made, and that is now something else than it believes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UntrueSetting {
    /// Whose programs, as [`crate::Injector::admit_as`] was told.
    pub of: String,
    /// Which setting: the kernel's name of it, or words that say what it is.
    pub what: String,
    /// How it is untrue.
    pub how: Untrue,
}

/// How a setting is untrue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Untrue {
    /// It was passed on as it was, or not all that it does is known to be in virtual time then.
    Untranslated,
    /// The kernel takes nothing so large: it is shorter in virtual time than the program was told.
    Cut,
}

/// Reads which setting the arguments of the image's call tell of, and why it is untrue.
pub(crate) fn told(id: u64, why: u64) -> (String, Untrue) {
    let (table, line, kind) = match id.checked_sub(OF_SYSCTL) {
        Some(line) => (SYSCTLS, line, "net/"),
        None => (ATTRIBUTES, id, ""),
    };
    // Anybody may make that call.
    let name = table.iter().find(|(at, _)| *at == line).map_or("an unknown setting", |(_, name)| name);
    (format!("{kind}{name}"), if why == 0 { Untrue::Untranslated } else { Untrue::Cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tables_have_names() {
        let line = |text: &str, of: &str| text.lines().position(|l| l.contains(of)).unwrap() as u64 + 1;
        let attributes = include_str!("../guest/settings/attributes.h");
        let told_of = |of: &str| told(line(attributes, of), 1).0;
        assert_eq!(told_of("(BRIDGE, IFLA_BR_MAX_AGE, CS"), "IFLA_BR_MAX_AGE");
        assert_eq!(told_of("tc_htb_opt, cbuffer"), "cbuffer");
        assert_eq!(told_of("STUCK_NAME(QDISCS, \"red\""), "tc red (its average is over real time)");
        assert!(told_of("NOTED_NAME(QDISCS, \"hhf\"").starts_with("tc hhf (its time-outs"));
        assert!(told_of("NOTED_FIELD(SFQ").starts_with("the period of tc sfq (translated"));
        let sysctls = include_str!("../guest/settings/sysctls.h");
        let id = OF_SYSCTL + line(sysctls, "tcp_min_rtt_wlen");
        assert_eq!(told(id, 0), ("net/ipv4/tcp_min_rtt_wlen".to_owned(), Untrue::Untranslated));
        assert_eq!(told(7 << 40, 0).0, "net/an unknown setting");
    }
}
