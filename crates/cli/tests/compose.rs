//! A Compose file of a web server, a cache and a database whose images a registry has: two commands run it. Needs root,
//! two cores and crun or runc, as every run does, and Debian's docker-registry and skopeo.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{DIORAMA, Lab, PATIENCE, wait_until};

const MAKE: &str = include_str!("images/make.sh");

/// A registry on this machine, until the test is over.
struct Registry(Child);

impl Registry {
    fn start(dir: &Path, host: &str) -> Registry {
        let config = format!(
            "version: 0.1\nlog: {{ level: error }}\nstorage: {{ filesystem: {{ rootdirectory: {}/registry }} }}\nhttp: \
             {{ addr: '{host}' }}\n",
            dir.display()
        );
        fs::write(dir.join("registry.yml"), config).unwrap();
        let mut registry = Command::new("docker-registry");
        registry.arg("serve").arg(dir.join("registry.yml")).stdin(Stdio::null());
        registry.stdout(Stdio::null()).stderr(Stdio::null());
        let child = registry.spawn().expect("this test needs docker-registry: apt install docker-registry");
        wait_until("the registry", PATIENCE, || TcpStream::connect(host).is_ok());
        Registry(child)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The images that the machine keeps because of this test.
struct Kept<'a>(&'a Lab, Vec<String>);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        for name in &self.1 {
            self.0.diorama(&["image", "remove", name]);
        }
    }
}

fn must(program: &mut Command) {
    let done = program.output().unwrap_or_else(|e| panic!("{program:?}: {e}"));
    assert!(done.status.success(), "{program:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_web_server_a_cache_and_a_database_run_by_two_commands() {
    for (program, package) in [
        ("/usr/bin/docker-registry", "docker-registry"),
        ("/usr/bin/skopeo", "skopeo"),
        ("/usr/bin/redis-server", "redis-server"),
        ("/usr/sbin/nginx", "nginx"),
        ("/bin/busybox", "busybox-static"),
    ] {
        assert!(Path::new(program).exists(), "this test needs {program}: apt install {package} (make test does)");
    }
    let lab = Lab::new("");
    let dir = lab.path();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let host = format!("127.0.0.1:{port}");
    fs::write(dir.join("make.sh"), MAKE).unwrap();
    must(Command::new("sh").arg(dir.join("make.sh")).arg(&host).arg(dir));
    let registry = Registry::start(dir, &host);
    // Names by which the machine has no other images.
    let tag = format!("t{}", std::process::id());
    for name in ["web", "cache", "db"] {
        let (archive, to) = (dir.join(format!("archives/{name}.tar")), format!("docker://{host}/shop/{name}:{tag}"));
        let from = format!("docker-archive:{}", archive.display());
        must(Command::new("skopeo").args(["copy", "--quiet", "--dest-tls-verify=false", &from, &to]));
    }
    let compose = |tag: &str| {
        format!(
            r#"
services:
  web:
    image: {host}/shop/web:{tag}
    ports: ["8080:80"]
    depends_on:
      cache: {{ condition: service_healthy }}
      db: {{ condition: service_healthy }}
  cache:
    image: {host}/shop/cache:{tag}
    healthcheck: {{ test: [CMD, redis-cli, ping] }}
  db:
    image: {host}/shop/db:{tag}
    environment: {{ POSTGRES_PASSWORD: "${{POSTGRES_PASSWORD:?set it in .env}}" }}
    volumes: [db-data:/var/lib/postgresql/data]
    healthcheck: {{ test: [CMD-SHELL, "grep -q ready $$PGDATA/postmaster.pid"], interval: 500ms, timeout: 10s }}
volumes: {{ db-data: }}
"#
        )
    };
    let folder = dir.join("lab");
    fs::write(folder.join("compose.yaml"), compose(&tag)).unwrap();
    fs::write(folder.join(".env"), "POSTGRES_PASSWORD=example\n").unwrap();
    fs::remove_file(folder.join("experiment.yaml")).unwrap();

    let kept = Kept(&lab, ["web", "cache", "db"].map(|name| format!("{name}-{tag}")).to_vec());
    let missing = lab.diorama(&["image", "pull", &format!("{host}/shop/nothing:1")]);
    assert!(missing.code == 2 && missing.stderr.contains("there is no image"), "{}", missing.stderr);
    let pulled = lab.diorama(&["image", "pull", &format!("{host}/shop/cache:{tag}")]);
    assert!(pulled.code == 0 && pulled.stdout.contains(&format!("root: image:cache-{tag}")), "{}", pulled.stdout);
    let converted = lab.diorama(&["convert", "--pull", "lab/compose.yaml"]);
    assert_eq!(converted.code, 0, "{}", converted.stderr);
    let text = &converted.stdout;
    for line in [
        &format!("root: \"image:db-{tag}\""),
        "user: \"998:998\"",
        "user: \"999:999\"",
        "ready: { tcp: 6379 }",
        "every: \"500ms\", limit: \"10000ms\" }",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
    fs::write(folder.join("experiment.yaml"), text).unwrap();
    drop(registry);

    // A web server does not end by itself: when it has had time to begin, too.
    let end = "events=[{ when: { node: db, log: ready to accept connections, after: 8s }, do: end }]";
    let run = lab.diorama(&["run", "lab", "--set", "ends.limit=60s", "--set", end, "--out", "runs/shop"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let events = lab.read("runs/shop/events.jsonl");
    let at = |event: &str, node: &str| {
        let line = events.lines().find(|line| {
            line.contains(&format!("\"event\":\"{event}\"")) && line.contains(&format!("\"target\":\"{node}\""))
        });
        let line = line.unwrap_or_else(|| panic!("{node} has no `{event}`: {events}"));
        events.lines().position(|other| other == line).unwrap()
    };
    assert!(at("start", "web") > at("ready", "db") && at("start", "web") > at("ready", "cache"), "{events}");
    assert!(events.contains("grep -q ready $PGDATA/postmaster.pid"), "{events}");
    at("ready", "web");
    assert!(lab.read("runs/shop/nodes/db/stderr.log").contains("ready to accept connections"));
    drop(kept);

    // From a folder of archives, of either kind.
    let [from, to] = [("docker-archive", "db"), ("oci-archive", "oci")]
        .map(|(kind, name)| format!("{kind}:{}", dir.join(format!("archives/{name}.tar")).display()));
    must(Command::new("skopeo").args(["copy", "--quiet", &from, &format!("{to}:{host}/shop/db:1")]));
    fs::remove_file(dir.join("archives/db.tar")).unwrap();
    fs::rename(dir.join("archives"), folder.join("archives")).unwrap();
    fs::write(folder.join("compose.yaml"), compose("1")).unwrap();
    let mut convert = Command::new(DIORAMA);
    let done = convert.args(["convert", "--images", "archives", "compose.yaml"]).current_dir(&folder).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    for root in ["archives/oci.tar", "archives/web.tar", "archives/cache.tar"] {
        assert!(
            text.contains(&format!("root: \"{root}\"")),
            "{root}:\n{text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    fs::write(folder.join("experiment.yaml"), &*text).unwrap();
    let checked = lab.diorama(&["check", "lab"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
}
