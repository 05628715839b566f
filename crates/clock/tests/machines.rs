//! Programs that run others on a machine of their own.

use std::process::Command;

use crate::common::{Dilation, compile, native};

fn need(program: &str, package: &str) {
    let found = Command::new(program).arg("--version").output();
    assert!(found.is_ok(), "this test needs {program}: apt install {package} (make test does)");
}

#[test]
fn signals_interrupt_what_they_do_natively() {
    need("valgrind", "valgrind");
    need("qemu-x86_64", "qemu-user");
    for flags in [&[][..], &["-static"]] {
        let program = compile("interrupted", flags);
        let native = native([&program]);
        assert!(native.status.success() && native.stdout.lines().count() == 11, "{native:?}");
        let machines = [&[][..], &["valgrind", "-q", "--tool=none", "--log-file=/dev/null"], &["qemu-x86_64"]];
        for machine in machines {
            let ran = Dilation::new("3").run(machine.iter().map(|word| word.as_ref()).chain([program.as_os_str()]));
            assert!(ran.status.success(), "{machine:?}, {flags:?}: {ran:?}");
            assert_eq!(ran.stdout, native.stdout, "{machine:?}, {flags:?}");
        }
    }
}

#[test]
fn valgrind_runs_a_program_dilated() {
    need("valgrind", "valgrind");
    let program = compile("threads", &[]);
    for tool in ["none", "memcheck", "helgrind"] {
        let dilation = Dilation::new("2");
        let by = ["valgrind", "-q", "--log-file=/dev/null", &format!("--tool={tool}")].map(str::to_owned);
        let ran = dilation.run(by.into_iter().chain([program.to_str().unwrap().to_owned()]));
        assert!(ran.status.success(), "{tool}: {ran:?}");
        let waits = ran.stdout.lines().map(|line| line.split_once(' ').unwrap().0.parse::<f64>().unwrap());
        let waits: Vec<f64> = waits.collect();
        assert!(waits.len() == 2 && waits.iter().all(|wait| *wait >= 0.05), "{tool}: {ran:?}");
        assert!(ran.real.as_secs_f64() >= 2.0 * waits.iter().sum::<f64>(), "{tool}: {ran:?}");
    }
}
