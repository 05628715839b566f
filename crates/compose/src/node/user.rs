//! As whom a service runs: the number of a user and of a group, as experiments have them.

use model::yaml::Span;

use crate::load::Loader;
use crate::project::Service;
use crate::{Image, Options};

/// A user, as an experiment writes it, and where it is at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub numbers: String,
    pub home: Option<String>,
}

/// The user of a service, or else of its image; none if that is root.
pub(super) fn user(
    loader: &mut Loader,
    service: &Service,
    image: Option<&Image>,
    options: &Options<'_>,
) -> Option<User> {
    let written = service.options.iter().find(|(key, _)| key.text == "user").map(|(_, value)| value.span);
    let (wanted, span) = match (&service.user, image) {
        (Some(user), _) if !user.is_empty() => (user.clone(), written.unwrap_or(service.span)),
        (_, Some(image)) => (image.user.clone(), service.span),
        _ => return None,
    };
    if matches!(wanted.as_str(), "" | "0" | "0:0" | "root" | "root:root") {
        return None;
    }
    let (users, groups) = match image.map(|image| (options.accounts)(&image.root)) {
        Some(Ok(accounts)) => accounts,
        Some(Err(what)) => {
            loader.wrong(span, what);
            return None;
        }
        None => (String::new(), String::new()),
    };
    let found = look_up(&wanted, &users, &groups);
    if found.is_none() {
        unknown(loader, service, &wanted, span, image.is_some());
    }
    found
}

fn unknown(loader: &mut Loader, service: &Service, wanted: &str, span: Span, has_image: bool) {
    if has_image {
        loader.wrong(span, format!("the image has no user `{wanted}`"));
    } else {
        let what = format!("who `{wanted}` is, its image would say: the program begins as root; write its number");
        loader.note(span, Some(&service.name), what);
    }
}

/// `NAME` or `UID`, with `:GROUP` or `:GID`. A user without a group has that of its account, or root's.
fn look_up(wanted: &str, users: &str, groups: &str) -> Option<User> {
    let (user, group) = wanted.split_once(':').map_or((wanted, None), |(user, group)| (user, Some(group)));
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let number = |text: &str| text.parse::<u32>().ok();
    let mut accounts = users.lines().map(fields).filter(|account| account.len() >= 6);
    let account = accounts.find(|account| account[0] == user || (number(user).is_some() && account[2] == user));
    let uid = account.as_ref().and_then(|account| number(&account[2])).or_else(|| number(user))?;
    let gid = match group {
        Some(group) => {
            let mut known = groups.lines().map(fields).filter(|line| line.len() >= 3);
            known.find(|line| line[0] == group).and_then(|line| number(&line[2])).or_else(|| number(group))?
        }
        None => account.as_ref().and_then(|account| number(&account[3])).unwrap_or(0),
    };
    let home = account.map(|account| account[5].clone()).filter(|home| home.starts_with('/'));
    Some(User { numbers: format!("{uid}:{gid}"), home })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_looked_up_as_containers_look_them_up() {
        let (users, groups) = ("root:x:0:0::/root:/bin/sh\nredis:x:999:998::/data:/bin/sh\n", "tty:x:5:\n");
        for (wanted, numbers, home) in [
            ("redis", "999:998", Some("/data")),
            ("999", "999:998", Some("/data")),
            ("1000", "1000:0", None),
            ("redis:tty", "999:5", Some("/data")),
            ("1000:1001", "1000:1001", None),
        ] {
            let expected = User { numbers: numbers.into(), home: home.map(str::to_owned) };
            assert_eq!(look_up(wanted, users, groups), Some(expected), "{wanted}");
        }
        assert_eq!((look_up("nobody", users, groups), look_up("redis:no", users, groups)), (None, None));
    }
}
