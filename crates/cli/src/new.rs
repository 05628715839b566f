//! `diorama new`: write an experiment to start from.

mod templates;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::Dir;

use self::templates::Template;
use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama new`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The kind of experiment
    #[arg(value_enum, default_value = "two-nodes")]
    template: Template,
    /// The folder that it becomes, made where it is missing; without it one of the template's name
    folder: Option<PathBuf>,
}

/// The file's name in the folder of an experiment, and that of its schema, which its first line refers to.
const EXPERIMENT: &str = "experiment.yaml";
const SCHEMA: (&str, &str) = ("experiment.schema.json", include_str!("../../../schema/experiment.schema.json"));

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let template = args.template;
    let folder = args.folder.unwrap_or_else(|| template.name().into());
    let cannot = |e: std::io::Error| Failure::input(format!("{}: cannot write there: {e}", folder.display()));
    let dir = Dir::open_or_make(&folder).map_err(cannot)?;
    let name = name_for(&folder).unwrap_or_else(|| template.name().into());
    let files: Vec<(&str, String)> = template.files().map(|(file, text)| (file, called(file, text, &name))).collect();
    if let Some((file, _)) = files.iter().find(|(file, _)| dir.has(Path::new(file))) {
        return Err(Failure::input(format!(
            "{} is there already, and is left as it is: name another folder, `diorama new {} FOLDER`",
            folder.join(file).display(),
            template.name()
        )));
    }
    for (file, text) in &files {
        dir.create(Path::new(file)).and_then(|mut made| made.write_all(text.as_bytes())).map_err(cannot)?;
    }
    let mut said: String = files.iter().map(|(file, _)| format!("{}\n", folder.join(file).display())).collect();
    said += &format!("next: diorama check {0}, and, as root, diorama run {0}\n", folder.display());
    terminal::print(said)?;
    for (program, package) in template.programs().iter().filter(|(program, _)| engine::installed(program).is_none()) {
        terminal::say(format!("its nodes run {program}, which is not on this machine: apt install {package}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The file's text, with the experiment's own name in it.
fn called(file: &str, text: &str, name: &str) -> String {
    if file != EXPERIMENT {
        return text.to_string();
    }
    let line = |line: &str| if line.starts_with("name: ") { format!("name: {name}\n") } else { format!("{line}\n") };
    text.lines().map(line).collect()
}

/// The folder's name as one of an experiment, a DNS label. `None` if there is nothing in it that one may have.
fn name_for(folder: &Path) -> Option<String> {
    let path = std::path::absolute(folder).ok()?;
    let name = path.file_name()?.to_str()?.to_lowercase();
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let mut label = parts.collect::<Vec<_>>().join("-");
    label.truncate(63);
    let label = label.trim_end_matches('-');
    (!label.is_empty()).then(|| label.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_experiment_a_name_that_may_be_one() {
        for (folder, name) in
            [("/tmp/My Shop_2", Some("my-shop-2")), ("a/b--c/", Some("b-c")), ("/ü", None), ("/", None)]
        {
            assert_eq!(name_for(Path::new(folder)).as_deref(), name, "{folder}");
        }
        assert_eq!(name_for(Path::new(&"x".repeat(80))).map(|name| name.len()), Some(63));
    }

    #[test]
    fn only_the_experiment_s_own_name_is_another() {
        let text = "name: web\nmachines: { a: 1 }\n  - { name: backup }\n";
        assert_eq!(called(EXPERIMENT, text, "mine"), "name: mine\nmachines: { a: 1 }\n  - { name: backup }\n");
        assert_eq!(called("web.conf", text, "mine"), text);
    }
}
