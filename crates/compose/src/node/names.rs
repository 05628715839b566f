//! Further names of a node: by all of them others find a service in Compose's networks.

use crate::load::Loader;
use crate::project::{Project, Service};

/// The names beside that of the node itself: that of the service, where it had to be changed or stands for several,
/// and its container's, its host's, its aliases, and what others call it by `links`.
pub(super) fn names(loader: &mut Loader, project: &Project, service: &Service) -> Vec<String> {
    let own = [Some(&service.key), service.container_name.as_ref(), service.hostname.as_ref()];
    let aliases = service.networks.iter().flat_map(|member| &member.aliases);
    let links = project.services.iter().flat_map(|other| &other.links);
    let links = links.filter(|(linked, ..)| *linked == service.key).map(|(_, alias, _)| alias);
    let count = service.scale.unwrap_or(1);
    // A name that is a node's is that one's alone.
    let is_taken = |name: &str| {
        project.services.iter().any(|other| match other.scale.unwrap_or(1) {
            1 => other.name == name,
            count => {
                let number = name.strip_prefix(&other.name).and_then(|rest| rest.strip_prefix('-'));
                let number = number.filter(|text| !text.starts_with(['0', '+'])).and_then(|text| text.parse().ok());
                number.is_some_and(|i: u32| i <= count)
            }
        })
    };
    let mut names: Vec<String> = Vec::new();
    for name in own.into_iter().flatten().chain(aliases).chain(links) {
        if names.contains(name) || (*name == service.name && count == 1) {
            continue;
        }
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.chars().all(inner);
        if name.len() > 64 || !name.split('.').all(is_label) || name == "localhost" {
            let what = format!("`{name}` is no name that a host can have: others do not know it by that");
            loader.note(service.span, Some(&service.name), what);
        } else if is_taken(name) {
            let what = format!("`{name}` is the name of another node, and stays that one's alone");
            loader.note(service.span, Some(&service.name), what);
        } else {
            names.push(name.clone());
        }
    }
    names
}
