//! A service's root and command, by its image where the service does not say them.

use model::yaml::quoted;

use crate::load::Loader;
use crate::project::{Project, Service};
use crate::{Image, Options, Wanted, label};

/// The image of a service, if it is there.
pub(super) fn find(loader: &mut Loader, project: &Project, service: &Service, options: &Options<'_>) -> Option<Image> {
    let (reference, span) = match (&service.image, service.build) {
        (Some((image, span)), _) => (image.clone(), *span),
        // As Compose calls what it builds.
        (None, Some(span)) => (format!("{}-{}", project.name, service.key), span),
        (None, None) => {
            let what =
                "there is neither `image` nor `build`, which Compose would refuse: this machine's own programs run";
            loader.note(service.span, Some(&service.name), what);
            return None;
        }
    };
    let short = short(&reference);
    let beside = format!("images/{short}.tar");
    let is_beside = loader.folder.join(&beside).is_file();
    let wanted = Wanted { reference: &reference, beside: is_beside.then_some(beside.as_str()) };
    match (options.images)(&wanted) {
        Ok(Some(image)) => {
            if service.build.is_some() {
                let what = format!("`build` is not carried over: `{reference}` is taken as it is");
                loader.note(span, Some(&service.name), what);
            }
            Some(image)
        }
        Ok(None) if service.build.is_some() => {
            let what = format!(
                "`build`: images are not built here: build it, save it by `docker save {reference} -o {beside}`, and \
                 convert again"
            );
            loader.wrong(service.build.unwrap_or(span), what);
            None
        }
        Ok(None) => {
            let what = format!(
                "image `{reference}` is not here, so this machine's own programs run: `diorama image pull \
                 {reference}`, or `docker save {reference} -o {beside}`, and convert again"
            );
            loader.note(span, Some(&service.name), what);
            None
        }
        Err(what) => {
            loader.wrong(span, what);
            None
        }
    }
}

/// redis:7 and registry.example/group/redis:7 are redis.
fn short(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or(reference);
    label(last.split([':', '@']).next().unwrap_or(last))
}

/// The command line, as Compose puts it together: the entry point, and the command behind it. A service that has an
/// entry point of its own runs nothing of its image's command.
pub(super) fn run(loader: &mut Loader, service: &Service, image: Option<&Image>) -> String {
    if let (None, Some(line), Some(words)) = (&service.entrypoint, &service.line, &service.command)
        && image.is_none_or(|image| image.entrypoint.is_empty())
        && shlex::split(line).as_ref() == Some(words)
        && !words.is_empty()
    {
        return quoted(line);
    }
    let entrypoint = service.entrypoint.clone().or_else(|| Some(image?.entrypoint.clone())).unwrap_or_default();
    let command = match (&service.command, &service.entrypoint) {
        (Some(command), _) => command.clone(),
        (None, Some(_)) => Vec::new(),
        (None, None) => image.map(|image| image.command.clone()).unwrap_or_default(),
    };
    let words: Vec<String> = entrypoint.into_iter().chain(command).collect();
    if words.is_empty() {
        let reference = service.image.as_ref().map_or("IMAGE", |(reference, _)| reference);
        let what = match image {
            Some(_) => "neither the service nor its image says what it runs: write `command`".into(),
            None => format!(
                "what it runs is known to its image only: `diorama image pull {reference}` and convert again, or write \
                 `command`"
            ),
        };
        loader.wrong(service.span, what);
    }
    format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
}

/// Where the program begins.
pub(super) fn working_dir(service: &Service, image: Option<&Image>) -> Option<String> {
    let of_image = || image.map(|image| image.working_dir.clone()).filter(|dir| !dir.is_empty());
    match &service.working_dir {
        Some(dir) if dir.starts_with('/') || dir.is_empty() => Some(dir.clone()).filter(|dir| !dir.is_empty()),
        Some(dir) => Some(crate::short::clean(&format!("{}/{dir}", of_image().unwrap_or_default()))),
        None => of_image().filter(|dir| dir != "/"),
    }
}
