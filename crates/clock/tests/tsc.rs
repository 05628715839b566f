//! rdtsc and rdtscp, where they are dilated, and the program's own SIGSEGV handler beside them.

use crate::common::{Dilation, compile, native};

#[test]
fn the_counter_counts_virtual_time() {
    for flags in [&[][..], &["-static"]] {
        let program = compile("tsc", flags);
        let native = native([&program]);
        assert!(native.status.success(), "{native:?}");
        let (real, same) = native.stdout.split_once('\n').unwrap();
        let rates = |line: &str| line.split(' ').map(|n| n.parse::<f64>().unwrap()).collect::<Vec<_>>();
        for tdf in ["1", "10"] {
            let ran = Dilation::new(tdf).with_dilated_tsc().run([&program]);
            let (line, rest) = ran.stdout.split_once('\n').unwrap_or_else(|| panic!("{ran:?}"));
            assert_eq!(rest, same, "TDF {tdf}: {ran:?}");
            for (cycles, native) in rates(line).into_iter().zip(rates(real)) {
                // Of 30 ms; to read the counter takes some µs.
                assert!((cycles / native - 1.0).abs() < 0.01, "TDF {tdf}: {cycles} cycles per ms, natively {native}");
            }
        }
    }
}

#[test]
fn undilated_it_shows_real_time() {
    let program = compile("tsc", &[]);
    let cycles = |stdout: &str| stdout.split(' ').next().unwrap().parse::<f64>().unwrap();
    let (native, dilated) = (native([&program]), Dilation::new("10").run([&program]));
    let ratio = cycles(&dilated.stdout) / cycles(&native.stdout);
    assert!((9.5..10.5).contains(&ratio), "{ratio}: the documentation says that it does");
}

#[test]
fn clocks_and_waits_work_beside_it() {
    for name in ["waits", "signals"] {
        let program = compile(name, &[]);
        let (native, ran) = (native([&program]), Dilation::new("2").with_dilated_tsc().run([&program]));
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(ran.stdout.lines().count(), native.stdout.lines().count(), "{ran:?}");
    }
}
