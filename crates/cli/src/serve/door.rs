//! Who may come in: tokens, and whether a request comes from this page. Nothing here knows a socket.

use std::hint::black_box;
use std::io;

/// Random bytes of a token.
const BYTES: usize = 24;

/// The rights of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum May {
    /// See runs, reports and what is live.
    Look,
    /// Also have events happen, and experiments checked.
    Everything,
}

/// The secrets that stand in addresses.
#[derive(Clone)]
pub struct Tokens {
    pub all: String,
    pub look: String,
}

impl Tokens {
    /// New ones, from the kernel's generator.
    pub fn new() -> io::Result<Tokens> {
        Ok(Tokens { all: token()?, look: token()? })
    }

    /// The rights of a token's holder; none, if it is no token.
    pub fn may(&self, said: &str) -> Option<May> {
        // Both are always compared, so that the time tells nothing of which it is like.
        let [all, look] = [&self.all, &self.look].map(|token| same(token.as_bytes(), said.as_bytes()));
        all.then_some(May::Everything).or_else(|| look.then_some(May::Look))
    }
}

fn token() -> io::Result<String> {
    let mut bytes = [0_u8; BYTES];
    let mut got = 0;
    while got < BYTES {
        got += rustix::rand::getrandom(&mut bytes[got..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether two texts are the same, in a time that only depends on their lengths.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| black_box(differs | (a ^ b))) == 0
}

/// The part of a request that decides whether it is let in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Knock<'a> {
    /// The path, from its first slash.
    pub path: &'a str,
    /// Headers.
    pub host: Option<&'a str>,
    pub origin: Option<&'a str>,
    pub fetch_site: Option<&'a str>,
    pub authorization: Option<&'a str>,
}

/// Where one comes in.
pub struct Door {
    hosts: Vec<String>,
    tokens: Tokens,
}

impl Door {
    /// Of a server at this port of the loopback.
    pub fn new(port: u16, tokens: Tokens) -> Door {
        let names = ["127.0.0.1", "localhost"];
        let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            hosts.extend(names.map(String::from));
        }
        Door { hosts, tokens }
    }

    /// Lets somebody in: his rights, and the path behind the token, without its first slash.
    ///
    /// # Errors
    ///
    /// A sentence that says why nobody is let in.
    pub fn lets_in<'a>(&self, knock: &Knock<'a>) -> Result<(May, &'a str), &'static str> {
        // A name that somebody else has lead here (DNS rebinding) is another in this header.
        if !knock.host.is_some_and(|host| self.is_here(host)) {
            return Err("this server is called 127.0.0.1 or localhost, and its port belongs to its name");
        }
        let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|host| self.is_here(host));
        if knock.origin.is_some_and(|origin| !own(origin)) {
            return Err("this comes from another page");
        }
        if knock.fetch_site.is_some_and(|site| site != "none" && site != "same-origin") {
            return Err("this comes from another page: copy the address into the browser's own line");
        }
        let path = knock.path.strip_prefix('/').unwrap_or(knock.path);
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if let Some(may) = self.tokens.may(first) {
            // Without the slash, what the page names would be looked for elsewhere.
            return if path.contains('/') { Ok((may, rest)) } else { Err("the address ends with a slash") };
        }
        let bearer = knock.authorization.and_then(|said| said.strip_prefix("Bearer "));
        match bearer.and_then(|said| self.tokens.may(said.trim())) {
            Some(may) => Ok((may, path)),
            None => Err("the address lacks the token, as `diorama serve` printed it when it started"),
        }
    }

    fn is_here(&self, host: &str) -> bool {
        self.hosts.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        Door::new(8737, Tokens { all: "a11".into(), look: "100c".into() })
    }

    fn knock(path: &str) -> Knock<'_> {
        Knock { path, host: Some("127.0.0.1:8737"), ..Knock::default() }
    }

    #[test]
    fn a_token_opens_what_it_may_and_nothing_else_does() {
        let door = door();
        assert_eq!(door.lets_in(&knock("/a11/")), Ok((May::Everything, "")));
        assert_eq!(door.lets_in(&knock("/100c/report")), Ok((May::Look, "report")));
        for path in ["/", "/a1/", "/a111/", "/A11/", "/x/a11/", "//a11/", "/metrics", "", "/100c"] {
            assert!(door.lets_in(&knock(path)).is_err(), "{path}");
        }
        let scraper = |said| Knock { authorization: Some(said), ..knock("/metrics") };
        assert_eq!(door.lets_in(&scraper("Bearer 100c")), Ok((May::Look, "metrics")));
        for said in ["Bearer", "Bearer ", "Bearer x", "Basic 100c", "100c"] {
            assert!(door.lets_in(&scraper(said)).is_err(), "{said}");
        }
    }

    #[test]
    fn other_names_and_other_pages_are_refused() {
        let door = door();
        let hosts = [None, Some("evil.example:8737"), Some("127.0.0.1"), Some("127.0.0.1:1"), Some("")];
        for host in hosts {
            assert!(door.lets_in(&Knock { host, ..knock("/a11/") }).is_err(), "{host:?}");
        }
        assert!(door.lets_in(&Knock { host: Some("LOCALHOST:8737"), ..knock("/a11/") }).is_ok());
        for origin in ["null", "http://evil.example", "https://127.0.0.1:8737", "http://127.0.0.1:1", ""] {
            assert!(door.lets_in(&Knock { origin: Some(origin), ..knock("/a11/") }).is_err(), "{origin}");
        }
        assert!(door.lets_in(&Knock { origin: Some("http://localhost:8737"), ..knock("/a11/") }).is_ok());
        for (site, is_let_in) in [("none", true), ("same-origin", true), ("same-site", false), ("cross-site", false)] {
            assert_eq!(door.lets_in(&Knock { fetch_site: Some(site), ..knock("/a11/") }).is_ok(), is_let_in, "{site}");
        }
    }

    #[test]
    fn tokens_are_long_and_new_each_time() {
        let [a, b] = [Tokens::new().unwrap(), Tokens::new().unwrap()];
        let all = [&a.all, &a.look, &b.all, &b.look];
        assert!(all.iter().all(|token| token.len() == 48 && token.bytes().all(|c| c.is_ascii_hexdigit())));
        assert!(all.iter().enumerate().all(|(n, token)| !all[..n].contains(token)));
        assert_eq!((a.may(&a.look), a.may(&a.all), a.may(&b.all)), (Some(May::Look), Some(May::Everything), None));
    }
}
