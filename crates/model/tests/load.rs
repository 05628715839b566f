//! Experiments that are right.

use std::path::Path;

use diorama_model::{Action, Combine, Experiment, NodeAction, Ready, Root, Source, Stream, load};
use scale::{Tdf, VirtualDuration, VirtualInstant, VirtualRate};

fn good(name: &str, overrides: &[(&str, &str)]) -> Result<Experiment, diorama_model::Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good").join(name);
    let overrides: Vec<_> = overrides.iter().map(|(p, v)| ((*p).to_owned(), (*v).to_owned())).collect();
    load(&path, &overrides)
}

fn at(s: f64) -> VirtualInstant {
    VirtualInstant::ZERO + VirtualDuration::from_secs_f64(s)
}

#[test]
fn the_experiment_of_the_design_is_read_whole() {
    let e = good("web-busy.yaml", &[]).unwrap();
    assert_eq!((e.name.as_str(), e.tdf), ("web-busy", Tdf::new(10, 1).unwrap()));
    assert_eq!(e.measure, Some((at(2.0), at(12.0))));
    let names: Vec<&str> = e.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["server", "client-1", "client-2", "client-3", "client-4"]);
    assert_eq!(e.machines[e.nodes[0].machine].speed, 0.5);
    assert_eq!(e.machines[e.nodes[4].machine].memory_bytes, 128 << 20);
    assert_eq!(e.nodes[0].argv, ["nginx", "-c", "/srv/nginx.conf"]);
    assert_eq!(e.nodes[0].ready, Some(Ready::Tcp(80)));
    assert_eq!(e.nodes[0].root, Root::Host);
    assert_eq!(e.nodes[0].files[0].0, "/srv/nginx.conf");
    assert!(e.nodes[0].files[0].1.is_absolute());
    assert_eq!(e.nodes[3].after, [0]);
    assert_eq!(e.nodes[3].group, "client");
    let links: Vec<&str> = e.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(links, ["server--core", "client-1--core", "client-2--core", "client-3--core", "client-4--core"]);
    assert_eq!(e.links[1].pipe.bandwidth, Some(VirtualRate::from_bits_per_s(1e8)));
    assert_eq!(e.links[1].pipe.delay, VirtualDuration::from_nanos(5_000_000));
    assert_eq!((e.links[0].pipe.queue_packets, e.links[0].pipe.loss, e.links[0].pipe.up), (100, 0.0, true));
    let latency = &e.metrics[0];
    assert_eq!(latency.nodes, [1, 2, 3, 4]);
    assert!(matches!(&latency.source, Source::Rows { path, start: Some(1), value: 3 } if path == "/out/log"));
    assert_eq!((latency.unit.result.as_str(), latency.unit.factor, latency.unit.start_seconds), ("ms", 1e-3, 1e-6));
    let Source::Line { regex, from: Stream::Stdout, combine: Combine::Sum } = &e.metrics[1].source else { panic!() };
    assert_eq!(&regex.captures("finished in 1s, 12.5 req/s").unwrap()[1], "12.5");
    assert_eq!((e.metrics[1].unit.result.as_str(), e.metrics[1].unit.factor), ("1/s", 1.0));
    assert_eq!(e.events.len(), 3);
    assert!(matches!(e.events[0].action, Action::Link { link: 0, change } if change.up == Some(false)));
    assert_eq!(e.events[2].action, Action::Node { node: 2, act: NodeAction::Kill });
    assert_eq!((e.ends.exited.as_slice(), e.ends.limit), ([1, 2, 3, 4].as_slice(), at(60.0)));
}
