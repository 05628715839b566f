//! Files of a node: copies of what lies in the Compose file's folder.

use std::path::Path;

use model::yaml::Span;

use crate::load::Loader;
use crate::project::{Project, Service};
use crate::short::Volume;
use crate::tree::Value;

/// Paths outside that containers are often shown, and that say nothing but what the machine's clock is set to.
const HARMLESS: [&str; 2] = ["/etc/localtime", "/etc/timezone"];

/// Collects what `volumes`, `configs` and `secrets` put into a node.
pub(super) fn files(loader: &mut Loader, project: &Project, service: &Service, files: &mut Vec<(String, String)>) {
    for (volume, span) in &service.volumes {
        self::volume(loader, project, service, volume, *span, files);
    }
    for (kind, items, declared, folder) in [
        ("config", &service.configs, &project.configs, "/"),
        ("secret", &service.secrets, &project.secrets, "/run/secrets/"),
    ] {
        for item in items {
            let source = item.get("source").and_then(Value::shown).unwrap_or_default();
            let Some(given) = declared.get(&source) else { continue };
            let target = item.get("target").and_then(Value::shown).unwrap_or_else(|| source.clone());
            let target = if target.starts_with('/') { target } else { format!("{folder}{target}") };
            match given.get("file").and_then(Value::shown) {
                Some(path) => copied(loader, service, &path, &target, item.span, files),
                None => {
                    let what = format!("the {kind} `{source}` is no file: put it into one, and name it by `files`");
                    loader.note(item.span, Some(&service.name), what);
                }
            }
        }
    }
}

fn volume(
    loader: &mut Loader,
    project: &Project,
    service: &Service,
    volume: &Volume,
    span: Span,
    files: &mut Vec<(String, String)>,
) {
    let node = Some(service.name.as_str());
    let target = &volume.target;
    match (volume.kind.as_str(), &volume.source) {
        ("bind", Some(path)) if HARMLESS.contains(&path.as_str()) => {
            loader.note(span, node, format!("`{path}` is not copied: nodes have this machine's zone of time anyhow"));
        }
        ("bind", Some(path)) => copied(loader, service, path, target, span, files),
        ("volume", source) => {
            let others = project.services.iter().filter(|other| other.key != service.key);
            let shares = |other: &&Service| source.is_some() && other.volumes.iter().any(|(v, _)| v.source == *source);
            let others: Vec<&str> = others.filter(shares).map(|other| other.key.as_str()).collect();
            let what = match others.is_empty() {
                true => format!("the volume at `{target}` is the node's own, empty at first, and gone afterwards"),
                false => format!(
                    "the volume at `{target}` is not shared with `{}`: each has its own, empty at first, and gone \
                     afterwards",
                    others.join("`, `")
                ),
            };
            loader.note(span, node, what);
        }
        ("tmpfs", _) => loader.note(span, node, format!("`{target}` is in the node's own files, not in memory")),
        (kind, _) => loader.wrong(span, format!("nodes have no volumes of type `{kind}`: take it out")),
    }
}

/// Puts a file of the folder, or a folder in it, into the node.
fn copied(
    loader: &mut Loader,
    service: &Service,
    path: &str,
    target: &str,
    span: Span,
    files: &mut Vec<(String, String)>,
) {
    let node = Some(service.name.as_str());
    let folder = loader.folder.clone();
    let Some(inside) = Path::new(path).strip_prefix(&folder).ok().filter(|inside| *inside != Path::new("")) else {
        let whole = folder == Path::new(path);
        let what = match whole {
            true => {
                "the whole folder would be copied, also this file: put what the node needs into a folder in it".into()
            }
            false => format!("`{path}` leads out of the folder: copy it there, and name it as ./PATH"),
        };
        loader.wrong(span, what);
        return;
    };
    let shown = inside.display().to_string();
    if !Path::new(path).exists() {
        let what = format!("there is no `./{shown}`, of which Compose makes an empty folder: the node begins without");
        loader.note(span, node, what);
        return;
    }
    let what = format!("`./{shown}` is copied into the node: what it writes there is its own");
    loader.note(span, node, what);
    files.push((target.to_owned(), shown));
}
