//! Compose files (<https://compose-spec.io>) as experiments: services become nodes, networks LANs.
//!
//! A file is read in three steps, each a module: files become one tree, in the order in which Compose itself does it
//! (`load`); that tree becomes a project, which is what Compose has of it (`project`); and that becomes the nodes of an
//! experiment (`node`). The tests compare the second with what Compose's own reader makes of the same files.
//!
//! Options that an experiment cannot express stand in its file as comments; those that would make another system of it
//! are errors with its line. Nothing here touches the machine but reading the file's folder.

mod canonical;
mod cast;
mod dotenv;
mod lans;
mod load;
mod merge;
mod node;
mod options;
mod project;
mod scalar;
mod short;
mod template;
mod tree;
mod write;

use std::path::{Path, PathBuf};

pub use model::Error;
use model::Experiment;
use model::yaml::Kind;

use crate::load::{Environment, Loader};
use crate::project::Project;
use crate::tree::Value;

const COMPOSE: Kind = Kind {
    the: "the Compose file",
    is: "a Compose file is a YAML file, such as compose.yaml",
    missing: "name a Compose file, such as compose.yaml, or an ns script",
    longest: 1 << 20,
};

/// The texts of `/etc/passwd` and `/etc/group`, or what is wrong with who should have them.
pub type Accounts = Result<(String, String), String>;

/// Settings of a conversion.
pub struct Options<'a> {
    /// Looks up a variable; one that it does not know is looked up in the file `.env` beside the Compose file.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Profiles whose services take part, beside those that belong to none.
    pub profiles: &'a [String],
    /// Looks for an image; says what is wrong with one that cannot be used.
    pub images: &'a dyn Fn(&Wanted<'_>) -> Result<Option<Image>, String>,
    /// The texts of `/etc/passwd` and `/etc/group` of an image, by its root in an experiment.
    pub accounts: &'a dyn Fn(&str) -> Accounts,
}

/// An image that a service has.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// As the Compose file names it.
    pub reference: &'a str,
    /// The archive of this name that lies beside the Compose file, from its folder.
    pub beside: Option<&'a str>,
}

/// An image that is there.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The `root` that an experiment writes for it.
    pub root: String,
    /// Its entry point.
    pub entrypoint: Vec<String>,
    /// And what behind that, if nobody says anything else.
    pub command: Vec<String>,
    /// With which variables, `NAME=value`.
    pub environment: Vec<String>,
    /// Where.
    pub working_dir: String,
    /// As whom.
    pub user: String,
    /// On which ports it may listen, as in `80/tcp`.
    pub ports: Vec<String>,
    /// By which signal it is ended.
    pub stop_signal: String,
}

/// An experiment's file that was made of a Compose file.
#[derive(Clone, Debug)]
pub struct Converted {
    file: PathBuf,
    folder: PathBuf,
    text: String,
    /// Differences from the file, each with its line.
    pub notes: Vec<String>,
}

/// Whether a name is that of a Compose file.
pub fn is_compose(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "yaml" || e == "yml")
}

/// Makes an experiment's file of Compose files, of which later ones are laid over earlier ones.
///
/// # Errors
///
/// The faults of the files, and what cannot be carried over, each place with its line.
pub fn convert(files: &[PathBuf], options: &Options<'_>) -> Result<Converted, Error> {
    let (mut loader, project) = read(files, options)?;
    let nodes = node::nodes(&mut loader, &project, options);
    let networks = lans::lans(&mut loader, &project, &nodes);
    loader.notes.sort_by_key(|note| (note.file != files[0], note.file.clone(), note.line));
    if !loader.problems.none() {
        return Err(loader.problems.into_error());
    }
    let shown = files[0].file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = Some(label(&project.name)).filter(|name| !name.is_empty()).unwrap_or_else(|| "compose".into());
    let text = write::experiment(&name, &shown, &nodes, &networks, &loader.notes);
    let notes = loader.notes.iter().map(|note| format!("{}:{}: {}", note.file.display(), note.line, note.what));
    let folder = files[0].parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")).to_owned();
    Ok(Converted { file: files[0].clone(), folder, text, notes: notes.collect() })
}

/// Reads Compose files, and gives what Compose makes of them, in the form of its own reader's JSON: services, networks
/// and volumes as they are once all is replaced, merged and written out. For those who compare the two.
///
/// # Errors
///
/// The faults of the files, each place with its line.
pub fn project(files: &[PathBuf], options: &Options<'_>) -> Result<serde_json::Value, Error> {
    let (loader, project) = read(files, options)?;
    if !loader.problems.none() {
        return Err(loader.problems.into_error());
    }
    Ok(project.to_json())
}

fn read(files: &[PathBuf], options: &Options<'_>) -> Result<(Loader, Project), Error> {
    let (mut loader, first) = Loader::new(&files[0])?;
    let folder = loader.folder.clone();
    let mut environment = Environment::new(options.environment);
    loader.settings_beside(&mut environment);
    let mut sources = vec![first];
    for file in &files[1..] {
        sources.push(loader.another(file)?);
    }
    let name = loader.project_name(&sources, &environment);
    environment.settings.insert(0, ("COMPOSE_PROJECT_NAME".into(), name.clone()));
    let root = loader.project(&sources, &folder, &environment, &[]);
    if !loader.problems.none() {
        return Err(loader.problems.into_error());
    }
    if matches!(&root.data, tree::Data::Map(entries) if entries.is_empty()) {
        loader.wrong(root.span, "the file is empty: an experiment is made of `services`");
    }
    let mut project = project::read(&mut loader, &root, name, &environment);
    let asked = environment.get("COMPOSE_PROFILES").filter(|_| options.profiles.is_empty());
    let asked = asked.map(|listed| listed.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>());
    project.choose(&mut loader, asked.as_deref().unwrap_or(options.profiles));
    project.read_settings(&mut loader, &environment);
    Ok((loader, project))
}

impl Converted {
    /// The experiment.
    ///
    /// # Errors
    ///
    /// If it is wrong after all.
    pub fn load(&self) -> Result<Experiment, Error> {
        model::load_text(&self.text, &self.file.with_extension("experiment.yaml"), &self.folder, &[])
    }

    /// The text of its file, with this time dilation factor.
    pub fn text(&self, tdf: &str) -> String {
        self.text.replacen("\ntdf: 1\n", &format!("\ntdf: {tdf}\n"), 1)
    }
}

/// Something that is different in the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    file: PathBuf,
    line: usize,
    /// The node concerned, if one is.
    node: Option<String>,
    what: String,
}

/// A name as hosts can have it: lower-case letters, digits, and single hyphens inside.
fn label(name: &str) -> String {
    let plain =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
    plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// The text of a value that is a name.
fn shown(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::shown)
}
