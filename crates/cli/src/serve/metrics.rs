//! Live runs in Prometheus' text format, version 0.0.4. What is counted a second is counted a virtual second.

use std::fmt::Write;

use crate::watch::picture::{Link, Node, Picture};

/// The media type of the text.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric: its name, what it is, and its value of something, if that has one.
type Metric<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

const OF_RUNS: &[Metric<Picture>] = &[
    ("run_virtual_seconds", "Virtual time since t = 0.", |run| Some(run.now_s())),
    ("run_end_virtual_seconds", "Virtual time at which the run will probably end.", |run| run.progress.end_s),
    ("run_left_real_seconds", "Real time until then.", |run| run.progress.left_real_s),
    ("run_tdf", "Time dilation factor: real time over virtual time.", |run| run.tdf.as_ref()?.parse().ok()),
    ("run_nodes", "Nodes of the run.", |run| Some(run.nodes.all.len() as f64)),
    ("run_nodes_running", "Nodes whose program runs.", |run| run.progress.running.map(|running| running as f64)),
    ("run_events", "Lines of the run's events that were seen.", |run| Some(run.events_seen as f64)),
];

const OF_NODES: &[Metric<Node>] = &[
    ("node_cpus_busy", "CPUs of the node at work in the last interval, on average.", |node| node.cpus),
    ("node_cpus", "CPUs that the node has.", |node| node.of_cpus.map(f64::from)),
    ("node_memory_bytes", "Memory that the node used at the end of the last interval.", |node| {
        node.memory.map(|bytes| bytes as f64)
    }),
    ("node_memory_limit_bytes", "Memory that the node has.", |node| node.of_memory.map(|bytes| bytes as f64)),
    ("node_receive_bytes_per_virtual_second", "Bytes that came in on all interfaces.", |node| {
        node.traffic.map(|[to, _]| to)
    }),
    ("node_transmit_bytes_per_virtual_second", "Bytes that went out on all interfaces.", |node| {
        node.traffic.map(|[_, from]| from)
    }),
    ("node_disk_read_bytes_per_virtual_second", "Bytes read from the node's disk.", |node| {
        node.disk.map(|[read, _]| read)
    }),
    ("node_disk_written_bytes_per_virtual_second", "Bytes written to the node's disk.", |node| {
        node.disk.map(|[_, written]| written)
    }),
    ("node_disk_busy_ratio", "Part of the last second in which the node's disk had a request.", |node| node.disk_use),
];

/// Likewise of a direction of a link, beside the run that it is of.
type LinkMetric = (&'static str, &'static str, fn(&Picture, &Link) -> Option<f64>);

const OF_LINKS: &[LinkMetric] = &[
    ("link_busy_ratio", "Part of the last virtual second in which the transmitter was busy.", |run, link| {
        run.now_of(link)?.utilisation
    }),
    ("link_bits_per_virtual_second", "Rate in the last virtual second.", |run, link| {
        Some(run.now_of(link)?.bits_per_s)
    }),
    ("link_bandwidth_bits_per_virtual_second", "Bandwidth by the plan.", |_, link| link.bits_per_s),
    ("link_queue_packets", "Packets that waited or were in transmission, on average.", |run, link| {
        Some(run.now_of(link)?.queue_mean)
    }),
    ("link_queue_packets_most", "Packets that waited or were in transmission, at most.", |run, link| {
        Some(run.now_of(link)?.queue_max as f64)
    }),
    ("link_lost_packets", "Packets lost in the last virtual second, whyever.", |run, link| {
        Some(run.now_of(link)?.lost as f64)
    }),
];

/// The text of these runs, each with its identity.
pub fn text<'a>(runs: impl Iterator<Item = (&'a str, &'a Picture)>) -> String {
    let runs: Vec<(String, &Picture)> = runs
        .map(|(id, run)| {
            let labels = [("id", id), ("run", &run.name), ("variant", &run.variant)];
            (labels.map(|(name, value)| label(name, value)).join(","), run)
        })
        .collect();
    let mut text = String::new();
    family(&mut text, "live_runs", "Live runs of this machine.", [(String::new(), Some(runs.len() as f64))]);
    for (name, help, value) in OF_RUNS {
        family(&mut text, name, help, runs.iter().map(|(labels, run)| (labels.clone(), value(run))));
    }
    for (name, help, value) in OF_NODES {
        let rows = runs.iter().flat_map(|(labels, run)| run.nodes.all.iter().map(move |node| (labels, node)));
        let rows = rows.map(|(labels, (node, row))| (format!("{labels},{}", label("node", node)), value(row)));
        family(&mut text, name, help, rows);
    }
    for (name, help, value) in OF_LINKS {
        let rows = runs.iter().flat_map(|(labels, run)| run.links.all.iter().map(move |link| (labels, *run, link)));
        let rows = rows.map(|(labels, run, (pipe, row))| {
            let (link, direction) = pipe.rsplit_once('/').unwrap_or((pipe, ""));
            let labels = format!("{labels},{},{}", label("link", link), label("direction", direction));
            (labels, value(run, row))
        });
        family(&mut text, name, help, rows);
    }
    text
}

/// Adds all values of a metric; nothing of one without any.
fn family(text: &mut String, name: &str, help: &str, rows: impl IntoIterator<Item = (String, Option<f64>)>) {
    let mut rows = rows.into_iter().filter_map(|(labels, value)| Some((labels, value?))).peekable();
    if rows.peek().is_some() {
        let _ = writeln!(text, "# HELP diorama_{name} {help}\n# TYPE diorama_{name} gauge");
    }
    for (labels, value) in rows {
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(text, "diorama_{name}{labels} {}", number(value));
    }
}

/// A number as Prometheus writes those that are none.
fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".into(),
        value if value.is_infinite() => if value > 0.0 { "+Inf" } else { "-Inf" }.into(),
        value => value.to_string(),
    }
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use record::NodeInterval;

    use super::*;
    use crate::watch::picture::tests::{pipe, plan};

    #[test]
    fn each_metric_has_its_help_once_and_a_line_for_each_that_has_a_value() {
        let mut picture = Picture::default();
        picture.plan(&plan(2));
        picture.name = "a\"b\\\nc".into();
        picture.node(&NodeInterval { to_s: 1.0, node: "n-2", cpus: Some(1.5), ..NodeInterval::default() });
        picture.pipe(&pipe("n-1--core/ab", 2.0, 0.25));
        let other = Picture::default();
        let text = text([("7-a", &picture), ("8-b", &other)].into_iter());
        let of = r#"id="7-a",run="a\"b\\\nc",variant="scaled""#;
        for line in [
            "diorama_live_runs 2".to_string(),
            format!("diorama_run_virtual_seconds{{{of}}} 2"),
            format!("diorama_run_tdf{{{of}}} 10"),
            format!("diorama_node_cpus_busy{{{of},node=\"n-2\"}} 1.5"),
            format!("diorama_node_cpus{{{of},node=\"n-1\"}} 2"),
            format!("diorama_link_busy_ratio{{{of},link=\"n-1--core\",direction=\"ab\"}} 0.25"),
            format!("diorama_link_lost_packets{{{of},link=\"n-1--core\",direction=\"ab\"}} 3"),
            "diorama_run_virtual_seconds{id=\"8-b\",run=\"\",variant=\"\"} 0".to_string(),
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(!text.contains("node=\"n-1\"} NaN") && !text.contains("node_disk"), "{text}");
        let heads: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert!(heads.iter().enumerate().all(|(n, head)| !heads[..n].contains(head)), "{text}");
        assert_eq!(number(f64::NEG_INFINITY) + &number(f64::NAN) + &number(0.5), "-InfNaN0.5");
    }

    #[test]
    fn without_a_live_run_there_is_a_number_all_the_same() {
        let text = text(std::iter::empty());
        assert_eq!(text.lines().last(), Some("diorama_live_runs 0"));
        assert_eq!(text.lines().count(), 3);
    }
}
