//! A live run as JSON, for the page.

use serde_json::{Value, json};

use crate::watch::draw;
use crate::watch::picture::{Link, Picture, Stage};

/// A run in short: where it is.
pub fn head(id: &str, picture: &Picture) -> Value {
    let progress = &picture.progress;
    let is_live = picture.stage == Stage::Live;
    json!({
        "id": id,
        "name": picture.name,
        "variant": picture.variant,
        "tdf": picture.tdf,
        "is_live": is_live,
        "where": draw::where_it_is(picture),
        "virtual_s": finite(picture.now_s()),
        "end_s": progress.end_s.filter(|_| is_live),
        "left_real_s": progress.left_real_s.filter(|_| is_live),
        "running": progress.running.filter(|_| is_live),
        "nodes": picture.nodes.all.len(),
        "verdict": draw::verdict(picture).0,
        "trouble": picture.trouble,
        "bad_lines": picture.bad_lines,
    })
}

/// Its nodes, links and checks.
pub fn details(picture: &Picture) -> Value {
    let nodes = picture.nodes.all.iter().map(|(name, node)| {
        json!({
            "name": name,
            "state": node.state,
            "cpus": node.cpus,
            "of_cpus": node.of_cpus,
            "memory": node.memory,
            "of_memory": node.of_memory,
            "disk": node.disk,
            "disk_use": node.disk_use,
            "traffic": node.traffic,
        })
    });
    let links = picture.links.all.iter().map(|(name, link)| {
        let now = picture.now_of(link);
        json!({
            "name": name,
            "ends": ends(name, link),
            "of_bits_per_s": link.bits_per_s,
            "use": now.and_then(|now| now.utilisation).and_then(finite),
            "queue": now.map(|now| now.queue_mean).and_then(finite),
            "queue_most": now.map(|now| now.queue_max),
            "bits_per_s": now.map(|now| now.bits_per_s).and_then(finite),
            "lost": now.map(|now| now.lost),
        })
    });
    json!({
        "nodes": nodes.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "checks": draw::checks_told(picture).iter().map(check).collect::<Vec<_>>(),
    })
}

fn check([mark, name, value, says]: &[String; 4]) -> Value {
    json!({ "mark": mark, "name": name, "value": value, "says": says })
}

/// From where to where a direction of a link leads: by its plan or, where that is of an older version, by its name.
fn ends(name: &str, link: &Link) -> Option<[String; 2]> {
    link.ends.clone().or_else(|| {
        let (link, direction) = name.rsplit_once('/')?;
        let (a, b) = link.split_once("--")?;
        let ends = if direction == "ab" { [a, b] } else { [b, a] };
        Some(ends.map(String::from))
    })
}

/// JSON has no other numbers.
fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use record::NodeInterval;

    use super::*;
    use crate::watch::picture::tests::{event, pipe, plan};

    #[test]
    fn a_picture_is_told_with_the_ends_of_its_links() {
        let mut picture = Picture::default();
        picture.plan(&plan(2));
        picture.node(&NodeInterval { to_s: 1.0, node: "n-2", cpus: Some(1.5), ..NodeInterval::default() });
        picture.pipe(&pipe("n-1--core/ba", 2.0, 0.25));
        picture.event(&event("ready", Some("n-1"), 1.0));
        picture.progress.end_s = Some(60.0);
        let told = head("7-a", &picture);
        assert_eq!((&told["id"], &told["virtual_s"], &told["end_s"]), (&json!("7-a"), &json!(2.0), &json!(60.0)));
        assert_eq!((&told["where"], &told["nodes"]), (&json!("live"), &json!(2)));
        let told = details(&picture);
        assert_eq!(told["nodes"][1]["cpus"], json!(1.5));
        assert_eq!(told["nodes"][0]["state"], json!("ready"));
        let link = &told["links"][1];
        assert_eq!((&link["name"], &link["ends"]), (&json!("n-1--core/ba"), &json!(["core", "n-1"])));
        assert_eq!((&link["use"], &link["lost"], &link["of_bits_per_s"]), (&json!(0.25), &json!(3), &json!(100e6)));
        assert_eq!(told["links"][0]["use"], Value::Null, "a direction that had no row yet");
        picture.stage = Stage::Over;
        assert_eq!(head("7-a", &picture)["end_s"], Value::Null);
    }

    #[test]
    fn an_older_plan_has_the_ends_in_the_names() {
        let of = |name| ends(name, &Link::default());
        assert_eq!(of("a--b-c/ab").unwrap(), ["a", "b-c"]);
        assert_eq!(of("a--b-c/ba").unwrap(), ["b-c", "a"]);
        assert_eq!(of("backup/ab"), None);
    }
}
