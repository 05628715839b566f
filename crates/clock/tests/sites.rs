//! Which call sites a dilated process changes, and that nobody notices but by the time that calls take.

use crate::common::{Dilation, Ran, compile, native};

/// Which byte each site of the program began with in the end; `how` it was run.
fn sites(ran: &Ran, how: &str) -> String {
    assert!(ran.status.success(), "{how}: {:?}\n{}", ran.status, ran.stdout);
    ran.stdout.replace('\n', ", ")
}

/// With those sites changed that are said to be.
fn with_changed(as_compiled: &str, changed: &[&str]) -> String {
    let each = as_compiled.split_terminator(", ").map(|line| {
        let (name, byte) = line.split_once(' ').unwrap();
        format!("{name} {}, ", if changed.contains(&name) { "e9" } else { byte })
    });
    each.collect()
}

const FLAGS: &[&str] = &["-fexceptions"];
/// Within eight bytes that are stored at once.
const STORED_AT_ONCE: &[&str] = &[
    "preserved",
    "even",
    "sleeping",
    "one_thread",
    "several_threads",
    "by_syscall",
    "in_threads",
    "in_forked_child",
    "after_vforked_child",
    "forked",
    "cancelled",
];

#[test]
fn busy_sites_of_programs_are_changed_and_go_on_as_before() {
    let program = compile("sites", FLAGS);
    let as_compiled = sites(&native([&program]), "native");
    assert!(!as_compiled.contains("e9"), "{as_compiled}");
    for program in [&program, &compile("sites", &[FLAGS, &["-static"]].concat())] {
        for tdf in ["1", "10"] {
            let how = format!("{} at TDF {tdf}", program.display());
            let seen = sites(&Dilation::new(tdf).run([program]), &how);
            assert_eq!(seen, with_changed(&as_compiled, STORED_AT_ONCE), "{how}");
        }
    }
}

#[test]
fn on_one_core_it_does_not_matter_where_a_site_begins() {
    let program = compile("sites", FLAGS);
    let as_compiled = sites(&native([&program]), "native");
    let dilation = Dilation::new("10").on_one_core();
    let mut command = dilation.command([&program]);
    host::cores::pin_command(&mut command, 0);
    let seen = sites(&crate::common::run(command), "on one core");
    assert_eq!(seen, with_changed(&as_compiled, &[STORED_AT_ONCE, &["odd"]].concat()));
}

#[test]
fn programs_of_go_are_left_alone() {
    let program = compile("sites", &[FLAGS, &["-DAS_GO_HAS"]].concat());
    let as_compiled = sites(&native([&program]), "native");
    assert_eq!(sites(&Dilation::new("10").run([&program]), "dilated"), as_compiled);
}
