//! Compose files that become experiments, and those that do not.

use std::fs;
use std::path::Path;

use diorama_compose::{Converted, Image, Options, Wanted, convert};

/// Converts a file; its images are archives beside it, and redis:7, which says much of itself.
fn converted(dir: &Path, text: &str) -> Result<Converted, String> {
    let file = dir.join("compose.yaml");
    fs::write(&file, text).unwrap();
    let environment = |name: &str| (name == "TAG").then(|| "7".to_owned());
    let images = |wanted: &Wanted<'_>| {
        let plain = |archive: &str| Image { root: archive.into(), ..Image::default() };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        Ok(match (wanted.reference, wanted.beside) {
            ("redis:7", _) => Some(Image {
                root: "image:redis-7".into(),
                entrypoint: words("docker-entrypoint.sh"),
                command: words("redis-server --save"),
                working_dir: "/data".into(),
                user: "redis".into(),
                ports: words("16379/tcp 6379/tcp"),
                stop_signal: "SIGINT".into(),
                environment: words("PATH=/bin"),
            }),
            (_, beside) => beside.map(plain),
        })
    };
    let accounts =
        |_: &str| Ok(("root:x:0:0::/root:/bin/sh\nredis:x:999:998::/data:/bin/sh\n".into(), "tty:x:5:\n".into()));
    let options = Options { environment: &environment, profiles: &[], images: &images, accounts: &accounts };
    convert(&[file], &options).map_err(|e| e.render())
}

#[test]
fn services_become_nodes_and_networks_lans() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("images")).unwrap();
    fs::write(dir.path().join("images/cache.tar"), "").unwrap();
    fs::write(dir.path().join("site.conf"), "listen 80").unwrap();
    fs::write(dir.path().join("common.env"), "LANG=C\nMODE=slow\n").unwrap();
    let text = r#"
name: Web_Shop
services:
  web:
    image: nginx:${TAG}
    command: nginx -g 'daemon off;'
    environment: [MODE=fast]
    env_file: common.env
    ports: ["8080:80", "53:53/udp"]
    depends_on: { data_base: { condition: service_healthy }, cache: { condition: service_started } }
    networks: [front, back]
    volumes: ["./site.conf:/etc/nginx/conf.d/site.conf:ro", "logs:/var/log/nginx"]
    deploy: { replicas: 3, resources: { limits: { cpus: "0.5", memory: 64M } } }
    restart: always
  data_base:
    image: postgres
    entrypoint: [postgres]
    command: [-c, "shared_buffers=${BUFFERS:-8MB}"]
    expose: ["5432"]
    working_dir: /tmp
    networks: { back: { ipv4_address: 10.5.0.7 } }
    healthcheck: { test: [CMD, pg_isready] }
  cache:
    image: registry.example/group/cache:1
    command: ["redis-server"]
    networks: [back]
    mem_limit: 1.5g
    cpus: 4
networks:
  front:
  back: { ipam: { config: [ { subnet: 10.5.0.0/24 } ] } }
volumes: { logs: }
"#;
    let converted = converted(dir.path(), text).unwrap_or_else(|e| panic!("{e}"));
    let experiment = converted.load().unwrap_or_else(|e| panic!("{}\n{}", converted.text("1"), e.render()));
    let names: Vec<&str> = experiment.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["web-1", "web-2", "web-3", "data-base", "cache"]);
    assert_eq!(experiment.name, "web-shop");
    let text = converted.text("2.5");
    for part in [
        "\ntdf: 2.5\n",
        "  web: { speed: 0.5, memory: 64MiB }\n",
        "  cache: { cpus: 4, speed: 1, memory: 1.5GiB }\n",
        "  data-base: { speed: 0.1, memory: 256MiB }\n",
        "    run: \"nginx -g 'daemon off;'\"\n",
        "    run: [\"postgres\", \"-c\", \"shared_buffers=8MB\"]\n",
        "    env: { \"LANG\": \"C\", \"MODE\": \"fast\" }\n",
        "    ready: { tcp: 80 }\n",
        "    ready: { tcp: 5432 }\n",
        "    after: [\"data-base\", \"cache\"]\n",
        "    files: { \"/etc/nginx/conf.d/site.conf\": \"site.conf\" }\n",
        "    root: \"images/cache.tar\"\n",
        "  front: { members: [\"web-*\"] }\n",
        "  back: { members: [\"web-*\", \"data-base\", \"cache\"], subnet: 10.5.0.0/24, ",
        "addresses: { data-base: \"10.5.0.7\" } }\n",
        "    # compose.yaml:14: `restart` is not carried over",
        "`data_base` is called `data-base` here",
        "    names: [\"data_base\"]\n",
        "image `nginx:7` is not here",
    ] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    assert!(converted.notes.iter().any(|note| note.contains("compose.yaml:22:")), "{:?}", converted.notes);
}

#[test]
fn a_limit_of_cpu_time_is_as_few_cpus_as_can_use_it() {
    let dir = tempfile::tempdir().unwrap();
    for (cpus, machine, noted) in [
        ("0.5", "{ speed: 0.5,", false),
        ("1", "{ speed: 1,", false),
        ("\"1.5\"", "{ cpus: 2, speed: 0.75,", true),
        ("2.50", "{ cpus: 3, speed: 0.8333,", true),
        ("8", "{ cpus: 8, speed: 1,", false),
    ] {
        let text = format!("services:\n  a:\n    command: sleep 9\n    cpus: {cpus}\n");
        let converted = converted(dir.path(), &text).unwrap_or_else(|e| panic!("{cpus}: {e}"));
        assert!(converted.text("10").contains(machine), "{cpus}:\n{}", converted.text("10"));
        let note = converted.notes.iter().find(|note| note.contains("one thread alone"));
        assert_eq!(note.is_some(), noted, "{cpus}: {note:?}");
        assert!(note.is_none_or(|note| note.contains("compose.yaml:4:")), "{note:?}");
        let read = converted.load().unwrap_or_else(|e| panic!("{cpus}: {}", e.render()));
        let written = machine.strip_prefix("{ cpus: ").and_then(|rest| rest.split(',').next());
        assert_eq!(read.machines[0].cpus.to_string(), written.unwrap_or("1"));
    }
}

#[test]
fn what_would_be_another_system_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let service = |options: &str| format!("services:\n  a:\n    command: sleep 9\n{options}");
    for (text, says) in [
        (service("    build: .\n"), ["compose.yaml:4:5", "docker save"]),
        (service("    privileged: true\n"), ["compose.yaml:4:5", "shut in"]),
        (service("    network_mode: host\n"), ["compose.yaml:4:5", "network of its own"]),
        (service("    depends_on: [b]\n"), ["compose.yaml:4:18", "no service `b`"]),
        (service("    networks: [far]\n"), ["compose.yaml:4:16", "no network `far`"]),
        (service("    volumes: [\"/etc:/etc\"]\n"), ["compose.yaml:4:15", "leads out of the folder"]),
        (service("    volumes: [\"./../x:/x\"]\n"), ["compose.yaml:4:15", "leads out of the folder"]),
        (service("    enviroment: {}\n"), ["compose.yaml:4:5", "did you mean `environment`"]),
        (service("    mem_limit: much\n"), ["compose.yaml:4:16", "no amount of memory"]),
        (service("    image: ${NAME:?which}\n"), ["compose.yaml:4:12", "must be set: which"]),
        ("services:\n  a: { image: x }\n".into(), ["compose.yaml:2:3", "write `command`"]),
        ("service: {}\n".into(), ["compose.yaml:1:1", "did you mean `services`"]),
    ] {
        let refused = converted(dir.path(), &text).expect_err(&text);
        assert!(says.iter().all(|part| refused.contains(part)), "{text}\n{refused}");
    }
}

#[test]
fn a_service_alone_needs_no_network() {
    let dir = tempfile::tempdir().unwrap();
    let converted = converted(dir.path(), "services: { a: { command: sleep 9, privileged: false } }\n").unwrap();
    assert!(converted.load().is_ok() && !converted.text("1").contains("lans:"));
}

#[test]
fn what_changes_nothing_is_told_and_so_is_what_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
x-common: &common { restart: always }
services:
  a:
    <<: *common
    command: echo a && b
    labels: { x: 1 }
    logging: { driver: none }
    environment: [NOWHERE]
    volumes: ["./data:/data", "both:/both"]
  b: { command: sleep 9, volumes: ["both:/both"], cap_add: [NET_ADMIN, SYS_PTRACE], deploy: { mode: global } }
  c: { command: sleep 9, profiles: [debug] }
  d: { command: sleep 9, scale: 0 }
volumes: { both: }
"#;
    let converted = converted(dir.path(), text).unwrap_or_else(|e| panic!("{e}"));
    assert!(converted.load().is_ok(), "{}", converted.text("1"));
    for (line, says) in [
        (2, "`x-common` is the file's own"),
        (2, "`restart` is not carried over"),
        (6, "drops what follows `&`"),
        (7, "`labels`, `logging` change nothing"),
        (4, "`NOWHERE` has no value"),
        (10, "there is no `./data`"),
        (10, "the volume at `/both` is not shared with `b`"),
        (11, "`SYS_PTRACE` is a right that nodes do not have"),
        (11, "`mode` of `deploy` is not carried over"),
        (12, "`c` is left out, as it belongs to the profile `debug`"),
        (13, "`d` is left out"),
    ] {
        let is_told = |note: &String| note.contains(&format!("compose.yaml:{line}: ")) && note.contains(says);
        assert!(converted.notes.iter().any(is_told), "{line}: {says}\n{}", converted.notes.join("\n"));
    }
    assert!(!converted.notes.iter().any(|note| note.contains("NET_ADMIN")));
    assert!(!converted.text("1").contains("\n  c:\n"));
}

#[test]
fn nothing_outside_the_folder_is_read() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.env"), "SECRET=1\n").unwrap();
    fs::write(outside.path().join("other.yaml"), "services: { b: { command: sleep 9 } }\n").unwrap();
    let dir = outside.path().join("project");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.env"), dir.join("link.env")).unwrap();
    for text in [
        "services: { a: { command: x, env_file: ../secret.env } }\n",
        "services: { a: { command: x, env_file: link.env } }\n",
        "services: { a: { command: x, env_file: [{ path: ../secret.env, required: false }] } }\n",
        "services: { a: { extends: { file: ../other.yaml, service: b } } }\n",
        "include: [../other.yaml]\n",
        "services: { a: { command: x, configs: [c] } }\nconfigs: { c: { file: ../secret.env } }\n",
    ] {
        let refused = converted(&dir, text).expect_err(text);
        assert!(refused.contains("leads out of the folder"), "{text}\n{refused}");
    }
}

#[test]
fn what_an_image_says_counts_as_compose_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let service = |options: &str| {
        let text = format!("services:\n  a:\n    image: redis:7\n{options}");
        let converted = converted(dir.path(), &text).unwrap_or_else(|e| panic!("{e}"));
        assert!(converted.load().is_ok(), "{}", converted.text("1"));
        converted.text("1")
    };
    let all = service("");
    for part in [
        "    run: [\"docker-entrypoint.sh\", \"redis-server\", \"--save\"]\n",
        "    root: \"image:redis-7\"\n",
        "    cwd: \"/data\"\n",
        "    user: \"999:998\"\n",
        "    env: { \"HOME\": \"/data\" }\n",
        "    stop-signal: \"INT\"\n",
        "    ready: { tcp: 6379 }\n",
    ] {
        assert!(all.contains(part), "`{part}` is missing in:\n{all}");
    }
    for (options, part) in [
        ("    command: redis-cli ping\n", "run: [\"docker-entrypoint.sh\", \"redis-cli\", \"ping\"]\n"),
        ("    entrypoint: sleep\n", "run: [\"sleep\"]\n"),
        ("    entrypoint: []\n    command: sleep 9\n", "run: [\"sleep\", \"9\"]\n"),
        ("    user: root\n    working_dir: sub\n", "cwd: \"/data/sub\"\n"),
        ("    user: \"5:tty\"\n", "user: \"5:5\"\n"),
        ("    stop_signal: SIGQUIT\n", "stop-signal: \"QUIT\"\n"),
        ("    ports: [\"80:8080\"]\n", "ready: { tcp: 8080 }\n"),
    ] {
        let text = service(options);
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    assert!(!service("    user: root\n").contains("    user:"));
    let refused = converted(dir.path(), "services: { a: { image: redis:7, user: nobody } }\n").unwrap_err();
    assert!(refused.contains("the image has no user `nobody`"), "{refused}");
}

#[test]
fn others_find_a_service_by_all_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
services:
  web_1: { command: sleep 9, container_name: shop-web, hostname: www.local, networks: { n: { aliases: [web, b] } } }
  b: { command: sleep 9, networks: [n], scale: 2, links: ["web_1:frontend"] }
networks: { n: }
"#;
    let converted = converted(dir.path(), text).unwrap_or_else(|e| panic!("{e}"));
    let experiment = converted.load().unwrap_or_else(|e| panic!("{}\n{}", converted.text("1"), e.render()));
    let names: Vec<Vec<&str>> =
        experiment.nodes.iter().map(|node| node.names.iter().map(String::as_str).collect()).collect();
    assert_eq!(names, [vec!["web_1", "shop-web", "www.local", "web", "b", "frontend"], vec!["b"], vec!["b"]]);
    assert_eq!(experiment.nodes[0].hostname.as_deref(), Some("www.local"));
}

/// Replicas and port ranges are bounded before they are written out one by one.
#[test]
fn endless_numbers_of_nodes_and_ports_take_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let since = std::time::Instant::now();
    let file = |more: &str| {
        let text = format!("services: {{ a: {{ image: redis:7, {more} }}, b: {{ image: redis:7, hostname: a-x }} }}");
        converted(dir.path(), &text).map(|_| ())
    };
    drop(file("deploy: { replicas: 4000000000 }"));
    file("ports: [\"10000-20000:10000-20000/udp\"]").unwrap();
    let error = file("ports: [\"0-65535:0-65535\", \"80\"]").unwrap_err();
    assert!(error.contains("more than 65536 ports"), "{error}");
    drop(file(&format!("expose: [{}]", (1..60_000).map(|n| n.to_string()).collect::<Vec<_>>().join(","))));
    assert!(since.elapsed().as_secs() < 30, "{:?}", since.elapsed());
}

/// A name is another node's only if that node exists.
#[test]
fn the_number_of_a_node_is_written_in_one_way() {
    let dir = tempfile::tempdir().unwrap();
    let text = "services:\n  a: { image: redis:7, scale: 3 }\n  b: { image: redis:7, networks: { default: { aliases: \
                [a-2, a-4, a-02] } } }\n";
    let converted = converted(dir.path(), text).unwrap();
    let (text, notes) = (converted.text("1"), converted.notes.join("\n"));
    assert!(text.contains("a-4") && text.contains("a-02"), "{text}");
    assert!(notes.contains("`a-2` is the name of another node"), "{notes}");
    assert!(!notes.contains("`a-4`") && !notes.contains("`a-02`"), "{notes}");
}
