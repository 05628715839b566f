//! The experiments to start from, as they lie in `crates/cli/templates`.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Template {
    /// A server, a client and the link between them
    TwoNodes,
    /// A web server behind a switch, and three machines that load it
    Web,
    /// Users, a front, an application and a database with a disk
    ThreeTiers,
    /// Five members that elect a leader, a partition and a pause
    Cluster,
    /// An office whose PCs share a segment, and one of them a bad cable
    Lan,
}

/// The files of a template, by their names.
type Files = &'static [(&'static str, &'static str)];

macro_rules! files {
    ($folder:literal: $($name:literal),+) => {
        &[$(($name, include_str!(concat!("../../templates/", $folder, "/", $name)))),+]
    };
}

impl Template {
    /// Its name on the command line, and in its file.
    pub fn name(self) -> &'static str {
        match self {
            Template::TwoNodes => "two-nodes",
            Template::Web => "web",
            Template::ThreeTiers => "three-tiers",
            Template::Cluster => "cluster",
            Template::Lan => "lan",
        }
    }

    /// All files that it consists of, the schema among them.
    pub fn files(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let own: Files = match self {
            Template::TwoNodes => files!("two-nodes": "experiment.yaml", "client.py"),
            Template::Web => files!("web": "experiment.yaml", "nginx.conf"),
            Template::ThreeTiers => {
                files!("three-tiers": "experiment.yaml", "tier.py", "database.py", "users.py")
            }
            Template::Cluster => files!("cluster": "experiment.yaml", "member.py"),
            Template::Lan => files!("lan": "experiment.yaml", "find.py"),
        };
        own.iter().copied().chain([super::SCHEMA])
    }

    /// The programs that its nodes run, and the packages that bring them.
    pub fn programs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Template::Web => &[("nginx", "nginx-light"), ("h2load", "nghttp2-client")],
            _ => &[("python3", "python3")],
        }
    }
}
