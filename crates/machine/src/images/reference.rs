//! How images are called where they are fetched from: `redis:7` is `docker.io/library/redis:7`.

use crate::error::{Error, Result};

/// The whole name of an image, by the rules by which Docker completes one.
///
/// # Errors
///
/// If it is none.
pub fn image_reference(text: &str) -> Result<String> {
    complete(text).ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        Error::Usage(format!("`{shown}` is no name of an image: write NAME, NAME:TAG or HOST/NAME:TAG, in lower case"))
    })
}

fn complete(text: &str) -> Option<String> {
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (text, None),
    };
    let is_host = |first: &str| first.contains(['.', ':']) || first == "localhost";
    let (host, path) = match name.split_once('/') {
        Some((first, rest)) if is_host(first) => (first, rest.to_owned()),
        Some(_) => ("docker.io", name.to_owned()),
        None => ("docker.io", format!("library/{name}")),
    };
    // Docker's own registry by its old name.
    let host = if host == "index.docker.io" { "docker.io" } else { host };
    let (path, tag) = match path.split_once(':') {
        Some((path, tag)) => (path.to_owned(), Some(tag.to_owned())),
        None => (path, None),
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) && part.chars().all(plain)
    };
    let is_tag = |tag: &str| {
        (1..=128).contains(&tag.len())
            && !tag.starts_with(['.', '-'])
            && tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    let is_digest = |digest: &str| {
        digest.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit()))
    };
    let host_is_right = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':'))
        && host.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_right = host_is_right
        && text.len() <= 300
        && path.split('/').all(is_part)
        && tag.as_deref().is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    let tail = match (digest, tag) {
        (Some(digest), _) => format!("@{digest}"),
        (None, tag) => format!(":{}", tag.unwrap_or_else(|| "latest".into())),
    };
    is_right.then(|| format!("{host}/{path}{tail}"))
}

/// How the machine calls an image that it fetches: the last part of its name, and its tag.
pub(super) fn local_name(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or(reference);
    let last = last.strip_suffix(":latest").unwrap_or(last);
    let short: String = last.chars().take(60).collect();
    let word = short.replace("@sha256:", "-");
    let word: String = word.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    word.chars().take(40).collect::<String>().trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_docker_completes_them() {
        let digest = format!("redis@sha256:{}", "ab".repeat(32));
        for (short, whole) in [
            ("redis", "docker.io/library/redis:latest"),
            ("redis:7-alpine", "docker.io/library/redis:7-alpine"),
            ("bitnami/redis:7", "docker.io/bitnami/redis:7"),
            ("localhost:5000/web", "localhost:5000/web:latest"),
            ("localhost/web", "localhost/web:latest"),
            ("ghcr.io/a/b/c:1", "ghcr.io/a/b/c:1"),
            (&digest, &format!("docker.io/library/{digest}")),
        ] {
            assert_eq!(complete(short).as_deref(), Some(whole), "{short}");
        }
        for wrong in ["", "Redis", "-x", "a b", "redis:", "a//b", "redis@sha256:12", "--all", "a/../b", "x:$(id)"] {
            assert_eq!(complete(wrong), None, "{wrong}");
        }
        assert_eq!(local_name("docker.io/library/redis:7.2-alpine"), "redis-7-2-alpine");
        assert_eq!(local_name("localhost:5000/a/web:latest"), "web");
    }
}
