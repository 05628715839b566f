//! The environment of a service: what it says itself, and its files of settings below that.

use crate::dotenv;
use crate::load::{Environment, Loader, text_of_settings};
use crate::project::Service;

/// Gives variables that are only named the value that they have outside, where they have one.
pub(super) fn look_up(service: &mut Service, environment: &Environment<'_>) {
    for (name, value) in &mut service.environment {
        if value.is_none() {
            *value = environment.get(name);
        }
    }
}

/// Reads the files of settings of a service, which is only done for one that takes part.
pub(crate) fn read_files(loader: &mut Loader, service: &mut Service, environment: &Environment<'_>) {
    let mut settings: Vec<(String, String)> =
        service.environment.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
    for file in &service.env_files {
        let path = std::path::Path::new(&file.path);
        if !file.required && path.starts_with(&loader.folder) && !path.exists() {
            let shown = path.strip_prefix(&loader.folder).unwrap_or(path).display();
            loader.note(file.span, Some(&service.name), format!("`{shown}` is not there, and need not be"));
            continue;
        }
        let read = loader.try_inside(path).and_then(|real| text_of_settings(&real));
        let known = |name: &str| environment.get(name).or_else(|| service.environment.get(name).cloned().flatten());
        // Each service that names it has a copy of all that is in it.
        if let Ok(text) = &read
            && !loader.may_keep(text.lines().count(), text.len(), file.span)
        {
            return;
        }
        let parsed = read.and_then(|text| match file.format.as_deref() {
            None => dotenv::parse(&text, &mut settings, &known),
            Some("raw") => dotenv::parse_raw(&text, &mut settings),
            Some(other) => Err(format!("there is no format `{other}` of such files: leave it out, or write raw")),
        });
        if let Err(what) = parsed {
            let shown = path.strip_prefix(&loader.folder).unwrap_or(path).display();
            let what = if what.contains('`') { what } else { format!("`{shown}`: {what}") };
            loader.wrong(file.span, what);
        }
    }
    for (name, value) in settings {
        // The service's own words win.
        let is_said = service.environment.contains_key(&name);
        if !is_said {
            service.environment.insert(name, Some(value));
        }
    }
}
