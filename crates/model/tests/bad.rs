//! Experiments that are wrong: each must be refused with the message and the place that its comments say.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use diorama_model::{Error, load};

fn bad(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad").join(name)
}

/// `# expect LINE:COLUMN PART OF THE MESSAGE`, once for each problem that the file has, in order.
fn expectations(text: &str) -> Vec<(&str, &str)> {
    text.lines().filter_map(|l| l.strip_prefix("# expect ")).filter_map(|l| l.split_once(' ')).collect()
}

#[test]
fn every_bad_file_is_refused_at_its_place() {
    let mut wrong = Vec::new();
    let mut files = 0;
    for entry in fs::read_dir(bad("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        files += 1;
        let text = fs::read_to_string(&path).unwrap();
        let expected = expectations(&text);
        assert!(!expected.is_empty(), "{} expects nothing", path.display());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Err(error) = load(&path, &[]) else {
            wrong.push(format!("{name} was accepted"));
            continue;
        };
        let found: Vec<(String, String)> =
            error.problems().iter().map(|p| (format!("{}:{}", p.line(), p.column()), p.to_string())).collect();
        let right = found.len() == expected.len()
            && found.iter().zip(&expected).all(|((at, what), (place, part))| at == place && what.contains(part));
        if !right {
            wrong.push(format!("{name}\n  expected {expected:?}\n  found    {found:?}"));
        }
        // The picture for the terminal is made for every one, too.
        assert!(error.render().contains(&name), "{}", error.render());
    }
    assert!(files >= 30);
    assert!(wrong.is_empty(), "{} of {files}:\n{}", wrong.len(), wrong.join("\n"));
}

fn refused(path: &Path) -> String {
    let error = load(path, &[]).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. } | Error::Wrong(_)));
    error.to_string()
}

#[test]
fn what_is_no_experiment_file_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    for (path, part) in [
        (file("empty", b""), "the file is empty"),
        (file("comment", b"# nothing\n"), "the file is empty"),
        (file("latin1", b"name: x\n# caf\xe9\n"), "line 2 is not UTF-8"),
        (file("nul", b"name: x\n\0\n"), "line 2 holds a NUL"),
        (file("nulls", b"name: \"\\0\"\n"), "cannot be a name"),
        (file("long", &vec![b'#'; 2 << 20]), "longer than 1024 KiB"),
        (file("deep", "- ".repeat(300_000).as_bytes()), "nested more than 24 levels"),
        (file("deeper", "[".repeat(1_000_000).as_bytes()), ""),
        (file("wide", format!("name: [{}]", "x,".repeat(310_000)).as_bytes()), "more than 240000 values"),
        (file("question", "? ".repeat(300_000).as_bytes()), ""),
        (file("quote", format!("name: \"{}", "x\n".repeat(400_000)).as_bytes()), "not YAML"),
        (file("keys", (0..90_000).map(|i| format!("k{i}: 1\n")).collect::<String>().as_bytes()), "there is no key"),
        (dir.path().join("missing"), "there is no such file or folder"),
        (dir.path().to_owned(), "holds a file `experiment.yaml`"),
        (PathBuf::from("/dev/zero"), "this is not a file"),
    ] {
        let message = refused(&path);
        assert!(message.contains(part), "{path:?}: {message}");
        assert!(message.len() < 20_000, "{path:?}: a message of {} characters", message.len());
    }
    // A file that claims to be huge is not read.
    let sparse = file("sparse", b"");
    fs::OpenOptions::new().write(true).open(&sparse).unwrap().set_len(100 << 20).unwrap();
    assert!(refused(&sparse).contains("longer than"));
}

#[test]
fn a_file_of_many_wrong_keys_costs_as_much_more_as_it_is_longer() {
    let dir = tempfile::tempdir().unwrap();
    let took = |keys: usize| {
        let path = dir.path().join(keys.to_string());
        fs::write(&path, (0..keys).map(|i| format!("k{i}: 1\n")).collect::<String>()).unwrap();
        let once = || {
            let begun = Instant::now();
            refused(&path);
            begun.elapsed()
        };
        // The least of three: others may have had the core meanwhile.
        (0..3).map(|_| once()).min().unwrap()
    };
    let (few, many) = (took(6_000), took(90_000));
    // 15 times as many keys; at a quadratic cost 225 times as much.
    assert!(many < few * 75, "{many:?}, against {few:?} for a fifteenth of the keys");
}

/// A file is short, and what it is written for many.
#[test]
fn what_becomes_too_much_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("experiment.yaml");
    let refused = |node: &str, more: &str| {
        let text = format!(
            "name: x\ntdf: 1\nmachines: {{ m: {{ speed: 1, memory: 64MiB }} }}\nnodes:\n  a: {{ machine: m, {node} }}\n\
             ends: {{ limit: 600s }}\n{more}\n"
        );
        fs::write(&path, text).unwrap();
        refused(&path)
    };
    let (long, many) = ("y".repeat(700_000), "count: 2000, run: x");
    let of_all = |event: &str, times: usize| format!("events:\n{}", format!("  - {event}\n").repeat(times));
    let metrics = |line: &dyn Fn(usize) -> String, times: usize| {
        let metric = |n| format!("  m{n}: {{ nodes: a, line: '{}', from: stdout, combine: sum, unit: s }}\n", line(n));
        format!("metrics:\n{}", (0..times).map(metric).collect::<String>())
    };
    for (node, more, part) in [
        (&*format!("count: 2000, run: {long}"), String::new(), "written out for each of 2000"),
        (
            many,
            of_all(&format!("{{ at: 1s, node: 'a-*', program: p, run: {long} }}"), 1),
            "written out for each of 2000",
        ),
        (many, of_all("{ at: 1s, partition: [[a-1]] }", 3000), "are named, one by one"),
        (many, of_all("{ at: 1s, node: 'a-*', do: kill }", 3000), "more than 50000 events"),
        (many, "chaos: { seed: 1, faults: { partition: { every: 1ms, for: 1ms } } }".into(), "more than 200000 nodes"),
        ("run: x", metrics(&|n| format!("x{n} (.)"), 600), "more than 256 different"),
        ("run: x", metrics(&|n| format!("x{n} (\\w{{20}})"), 60), "more than 32 large"),
        (&*format!("count: 4000, run: x }}\n  b: {{ machine: m, {many}, after: ['a-*']"), String::new(), "one by one"),
    ] {
        let message = refused(node, &more);
        assert!(message.contains(part), "{part}: {}", &message[..message.len().min(2000)]);
    }
    let same = metrics(&|_| "x (\\w{20})".into(), 600);
    assert!(!refused("run: x", &(same + "nothing: 1")).contains("expressions"), "one of 600 metrics");
}

#[test]
fn steps_that_wait_for_one_another_in_a_chain_take_as_long_as_they_are_many() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("experiment.yaml");
    let step = |n: usize| format!("  - {{ at: 1s, after: s{}, as: s{n}, node: a, program: p{n}, run: x }}\n", n + 1);
    let text = |last: &str| {
        format!(
            "name: x\ntdf: 1\nmachines: {{ m: {{ speed: 1, memory: 64MiB }} }}\nends: {{ limit: 600s }}\n\
             nodes: {{ a: {{ machine: m, run: x }} }}\nevents:\n{}{last}",
            (0..8000).map(step).collect::<String>()
        )
    };
    // At a cubic cost this would take hours.
    fs::write(&path, text("  - { at: 1s, as: s8000, node: a, program: p, run: x }\n")).unwrap();
    assert_eq!(load(&path, &[]).unwrap().steps.len(), 8001);
    fs::write(&path, text("  - { at: 1s, after: s0, as: s8000, node: a, program: p, run: x }\n")).unwrap();
    assert!(refused(&path).contains("waits for its own end"));
}

#[test]
fn a_file_may_not_lead_out_by_a_symbolic_link() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("inner", dir.path().join("near")).unwrap();
    fs::write(dir.path().join("inner"), "").unwrap();
    let experiment = |file: &str| {
        format!(
            "name: x\ntdf: 1\nmachines: {{ m: {{ speed: 1, memory: 64MiB }} }}\n\
             nodes: {{ a: {{ machine: m, run: x, files: {{ /srv/x: {file} }} }} }}\nends: {{ limit: 1s }}\n"
        )
    };
    let path = dir.path().join("experiment.yaml");
    fs::write(&path, experiment("link")).unwrap();
    assert!(refused(&path).contains("leads out of the folder by a symbolic link"));
    fs::write(&path, experiment("near")).unwrap();
    assert!(load(dir.path(), &[]).is_ok());
    // Nor may a folder hold one, for it would not be copied.
    fs::create_dir(dir.path().join("site")).unwrap();
    fs::write(&path, experiment("site")).unwrap();
    assert!(load(dir.path(), &[]).is_ok());
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("site/link")).unwrap();
    assert!(refused(&path).contains("holds `site/link`, which is neither a file nor a directory"));
}

/// A pointer into a line of a megabyte would be drawn below a megabyte of it, and beyond column 65,535 not at all.
#[test]
fn a_fault_in_a_very_long_line_is_told_without_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.yaml");
    for text in [
        format!("name: [{}\n", "x,".repeat(100_000)),
        format!("name: x\nnodes: {{ {}: {{ run: x }}, b }}\n", "y".repeat(200_000)),
    ] {
        fs::write(&path, text).unwrap();
        let shown = load(&path, &[]).unwrap_err().render();
        assert!(shown.contains("long.yaml:") && shown.len() < 5000, "{} bytes", shown.len());
    }
}
