//! `diorama image`: nodes' files, kept for nodes of other experiments.

use std::process::ExitCode;

use engine::{ImageSource, KeptAbout, ListedImage};
use serde_json::json;

use crate::failure::Failure;
use crate::swap::rough;
use crate::{columns, terminal};

/// How many files are named of those that are not as they were.
const NAMED: usize = 10;

/// Arguments of `diorama image`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Save the files of a node of a live run, or of a suspended one
    Save {
        /// The live run: its directory, or its name; or what `swap list` prints of a suspended one
        run: String,
        /// The node
        node: String,
        /// The image's name from then on: a node has it as its root by `root: image:NAME`
        name: String,
    },
    /// Fetch an image, such as redis:7, and keep it, by skopeo
    Pull {
        /// Name of the image in its registry: NAME, NAME:TAG or HOST/NAME:TAG
        reference: String,
        /// Name that it is kept by; without it, after its own name: redis-7
        #[arg(long, value_name = "NAME")]
        r#as: Option<String>,
    },
    /// List the images of this machine
    List {
        /// For a program
        #[arg(long)]
        json: bool,
    },
    /// Remove an image that no run needs
    Remove {
        /// Its name
        name: String,
    },
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Save { run, node, name } => {
            let about = engine::save_image(&ImageSource::find(&run)?, &node, &name)?;
            warn_of(&about);
            let over =
                about.over.as_ref().map_or(String::new(), |host| format!(", over the root of a host with {host}"));
            let size = size(about.bytes);
            terminal::print(format!("saved: {size}{over}; `root: image:{name}` gives it to a node\n"))?;
        }
        What::Pull { reference, r#as } => {
            let about = engine::pull_image(&reference, r#as.as_deref())?;
            let (name, size) = (&about.name, size(about.bytes));
            terminal::print(format!("kept: {size}; `root: image:{name}` gives it to a node\n"))?;
        }
        What::List { json } => {
            let all = engine::images();
            let text =
                if json { format!("{:#}\n", json!(all.iter().map(as_json).collect::<Vec<_>>())) } else { table(&all) };
            terminal::print(text)?;
            for (name, why) in engine::damaged_images() {
                let help = format!("`diorama image remove {name}` removes it");
                engine::warn(format_args!("the image {name} is damaged: {why}; {help}"));
            }
        }
        What::Remove { name } => {
            engine::remove_image(&name)?;
            terminal::print(format!("the image {name} is gone\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what is not in the image as it was in the node.
fn warn_of(about: &KeptAbout) {
    let rest = |all: usize| if all > NAMED { format!("; and {} more", all - NAMED) } else { String::new() };
    if !about.left_out.is_empty() {
        let named: Vec<_> = about.left_out.iter().take(NAMED).cloned().collect();
        engine::warn(format_args!("not in the image: {}{}", named.join("; "), rest(about.left_out.len())));
    }
    if !about.changed.is_empty() {
        let named: Vec<_> = about.changed.iter().take(NAMED).map(|path| path.display().to_string()).collect();
        let (named, rest) = (named.join(", "), rest(about.changed.len()));
        engine::warn(format_args!(
            "changed while they were read, so that parts of them may not fit one another: {named}{rest}; stop the node \
             first (`diorama event … 'node: {}, do: stop'`)",
            about.node
        ));
    }
}

fn as_json(listed: &ListedImage) -> serde_json::Value {
    let mut value = json!(listed.about);
    value["used_by"] = json!(listed.used_by);
    value["unpacked"] = json!(listed.is_unpacked);
    value["age_s"] = json!(listed.age.as_secs());
    value
}

fn table(all: &[ListedImage]) -> String {
    let heads = ["image", "size", "from", "saved", "over", "used by"].map(str::to_owned);
    let line = |listed: &ListedImage| {
        let about = &listed.about;
        [
            about.name.clone(),
            size(about.bytes),
            about
                .reference
                .clone()
                .unwrap_or_else(|| format!("{} of {}/{}", about.node, about.experiment, about.variant)),
            format!("{} ago", rough(listed.age)),
            about.over.clone().unwrap_or_else(|| "nothing".into()),
            if listed.used_by.is_empty() { "–".into() } else { listed.used_by.join(", ") },
        ]
    };
    columns::table(std::iter::once(heads).chain(all.iter().map(line)))
}

/// `12.5 MiB`.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}
