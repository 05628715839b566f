//! Programs see as many CPUs as they are given, and may use those that they or their ancestors were told to use.

use std::ffi::OsStr;
use std::process::Command;

use crate::common::{Dilation, compile, run};

/// Prints as `cpus N` does on a machine of so many CPUs.
fn expected(cpus: usize) -> String {
    let list = |set: &[usize]| set.iter().map(|cpu| format!(" {cpu}")).collect::<String>();
    // 32 CPUs a word, the last word first, each digit four.
    let allowed = |set: &[usize]| {
        let digit = |digit: usize| {
            let bits = set.iter().filter(|cpu| **cpu / 4 == digit).map(|cpu| 1 << (cpu % 4)).sum::<u32>();
            format!("{bits:x}{}", if digit > 0 && digit.is_multiple_of(8) { "," } else { "" })
        };
        let mask: String = (0..cpus.div_ceil(4)).rev().map(digit).collect();
        let range = match set {
            [one] => one.to_string(),
            _ => format!("{}-{}", set[0], set[set.len() - 1]),
        };
        format!("Cpus_allowed:\t{mask}\nCpus_allowed_list:\t{range}\n")
    };
    let (all, last, first): (Vec<usize>, _, _) = ((0..cpus).collect(), [cpus - 1], [0]);
    let mut text = format!("words: 1\nall:{0}\nby its number:{0}\n{1}", list(&all), allowed(&all));
    text += "no size: Invalid argument\nhalf a word: Invalid argument\nnowhere: Bad address\nnobody: No such process\n\
             set none: Invalid argument\nset beyond: Invalid argument\nset nowhere: Bad address\n\
             set nothing: Invalid argument\nset nobody: No such process\nset too many: done\n\
             getcpu nowhere: Bad address\n";
    text += &format!("still all:{}\nto the last: done\nbound:{1}\n{2}", list(&all), list(&last), allowed(&last));
    text += &format!("on its CPU: 1 1\nthread:{0}\nchild:{0}\nprogram:{0}\n{1}", list(&last), allowed(&last));
    text += &format!("after vfork:{0}\n{1}told of another: 1\n", list(&last), allowed(&last));
    text += &format!("bound by another:{0}\nby attributes:{0}\nself:{1}\n", list(&first), list(&last));
    text += &format!("worker, begun:{}\nworker to the first: done\nworker:{1}\n", list(&last), list(&first));
    text += &format!("its thread:{0}\nits child:{0}\nits child's thread:{0}\nits program:{0}\n", list(&first));
    text += &format!("{}self, after that:{}\nto all: done\n", allowed(&first), list(&last));
    text += &format!("all again:{0}\nthread of all:{0}\nprogram of all:{0}\n{1}", list(&all), allowed(&all));
    text
}

/// In nodes rseq is no system call: by it the kernel would tell the number of the host's core.
fn without_rseq(mut command: Command) -> Command {
    command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    command
}

fn said<S: AsRef<OsStr>>(cpus: usize, argv: &[S]) -> String {
    let dilation = Dilation::new("2").with_cpus(cpus as u32);
    let ran = run(without_rseq(dilation.command(argv)));
    let refusals = dilation.refusals.lock().unwrap();
    assert!(ran.status.success() && refusals.is_empty(), "{:?} {refusals:?}\n{}", ran.status, ran.stdout);
    ran.stdout
}

#[test]
fn cpus_are_counted_set_and_inherited_as_on_a_machine_that_has_them() {
    for program in [compile("cpus", &[]), compile("cpus", &["-static"])] {
        for cpus in [1, 2, 4, 40, 64, 65, 256] {
            assert_eq!(said(cpus, &[program.as_os_str(), cpus.to_string().as_ref()]), expected(cpus), "{cpus} CPUs");
        }
    }
}

/// The reference is the kernel itself, where this machine's CPUs are numbered like a node's.
#[test]
fn and_that_is_what_this_machine_says_of_its_own() {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let like_a_node = possible.trim() == format!("0-{}", cpus - 1);
    assert!(like_a_node || cpus != 2, "two CPUs, and possible are {possible}");
    if like_a_node {
        let ran = crate::common::native([compile("cpus", &["-DNATIVE"]).as_os_str(), cpus.to_string().as_ref()]);
        assert_eq!(ran.stdout, expected(cpus));
    }
}

#[test]
fn other_peoples_programs_count_them() {
    assert_eq!(said(4, &["nproc"]), "4\n");
    assert_eq!(said(3, &["python3", "-c", "import os; print(os.sched_getaffinity(0))"]), "{0, 1, 2}\n");
    assert_eq!(said(4, &["taskset", "-c", "1,3", "nproc"]), "2\n");
    assert_eq!(said(4, &["taskset", "-c", "2", "sh", "-c", "taskset -cp $$; nproc; exec nproc"]).lines().count(), 3);
    let list = said(8, &["taskset", "-c", "1,3-5,7", "grep", "Cpus_allowed_list", "/proc/self/status"]);
    assert_eq!(list, "Cpus_allowed_list:\t1,3-5,7\n");
}

/// Where a program sees the host's CPUs, the kernel answers.
#[test]
fn without_cpus_of_its_own_a_program_sees_the_hosts() {
    let natively = crate::common::native(["nproc"]).stdout;
    assert_eq!(Dilation::new("2").run(["nproc"]).stdout, natively);
    let status = ["grep", "Cpus_allowed", "/proc/self/status"];
    assert_eq!(Dilation::new("2").run(status).stdout, crate::common::native(status).stdout);
}
