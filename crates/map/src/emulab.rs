//! Emulab's own files: `.ptop`, what there is, and `.top`, what is wanted. `docs/map.md` says what is read of them.
//!
//! Both are lines of words: `node NAME TYPE:COUNT … - FEATURE:COST … - FLAG …` and
//! `link NAME FROM TO BANDWIDTH DELAY LOSS …`, with bandwidths in kbit/s, and a few more.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use model::yaml::{Kind as FileKind, Problems, Span, did_you_mean, shorten, text};

use crate::catalog::{CATALOG, PLACES, number_equals, refuse_circles};
use crate::error::Error;
use crate::harness::{Cable, Feature, Harness, Place, TypeSlots};
use crate::request::{Class, Kind, Request, Target, Wanted, WantedLink};

/// The type that makes a place forward what is not for it.
const SWITCH: &str = "switch";
/// Bandwidths are in kbit/s.
const UNIT: f64 = 1e3;

const TOP: FileKind = FileKind {
    the: "the topology",
    is: "a topology of Emulab's is a text file whose name ends in .top",
    missing: "name the folder of an experiment, its YAML file, or a file of Emulab's that ends in .top",
    longest: 8 << 20,
};

/// A word of a line, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    text: &'a str,
    at: Span,
}

/// The most words of a file: ten thousand nodes have thirty each.
const WORDS: usize = 300_000;

/// The lines that say something, in words; a note if there are too many of them.
fn lines<'a>(text: &'a str, problems: &mut Problems) -> Vec<Vec<Word<'a>>> {
    let mut all = Vec::new();
    let mut left = WORDS;
    let mut start = 0;
    for line in text.split('\n') {
        let mut words = Vec::new();
        let mut begun: Option<(usize, usize)> = None;
        // Bytes cut the text, characters are counted for people.
        let mut chars = 0;
        for (byte, c) in line.char_indices().chain([(line.len(), ' ')]) {
            match (c.is_whitespace(), begun) {
                (false, None) => begun = Some((byte, chars)),
                (true, Some((from, first))) => {
                    let at = Span { source: 0, start: start + first, end: start + chars };
                    if left == 0 {
                        problems.add(at, format!("these are more than {WORDS} words: name fewer nodes or links"));
                        return all;
                    }
                    left -= 1;
                    words.push(Word { text: &line[from..byte], at });
                    begun = None;
                }
                _ => {}
            }
            chars += 1;
        }
        // The last one was none of the line's, but its end is one.
        start += chars;
        if words.first().is_some_and(|word| !word.text.starts_with('#')) {
            all.push(words);
        }
    }
    all
}

/// The rest of a line.
struct Rest<'a, 'l, 'p> {
    words: std::slice::Iter<'l, Word<'a>>,
    last: Span,
    problems: &'p mut Problems,
}

impl<'a, 'l, 'p> Rest<'a, 'l, 'p> {
    fn of(line: &'l [Word<'a>], problems: &'p mut Problems) -> Rest<'a, 'l, 'p> {
        Rest { words: line[1..].iter(), last: line[0].at, problems }
    }

    /// The next word; a note if there is none.
    fn next(&mut self, what: &str) -> Option<Word<'a>> {
        let word = self.words.next().copied();
        match word {
            Some(word) => self.last = word.at,
            None => self.problems.add(self.last, format!("the line ends here: {what} is missing")),
        }
        word
    }

    fn number(&mut self, what: &str) -> Option<f64> {
        let word = self.next(what)?;
        amount(word.text).or_else(|| {
            self.problems.add(word.at, format!("`{}` is not {what}: write a number", shorten(word.text)));
            None
        })
    }

    /// A bandwidth, in bit/s.
    fn bandwidth(&mut self) -> Option<f64> {
        let kbits = self.number("a bandwidth in kbit/s")?;
        if kbits <= 0.0 {
            self.problems.add(self.last, "a bandwidth is above 0, in kbit/s");
            return None;
        }
        Some(kbits * UNIT)
    }
}

/// A number that is not negative.
fn amount(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    text.parse().ok().filter(|value: &f64| plain && value.is_finite() && *value >= 0.0)
}

/// `NAME:VALUE`.
fn pair(word: Word<'_>) -> Option<(&str, &str)> {
    word.text.split_once(':').filter(|(name, _)| !name.is_empty())
}

/// The sort of feature or desire.
enum Sort {
    Plain,
    /// Wishes for it are summed.
    UsedUp,
    /// Only the first node that has it pays for it, or all but the first.
    Global,
}

fn sort(name: &str) -> (Sort, &str) {
    for (mark, sort) in [("?+", Sort::UsedUp), ("*&", Sort::Global), ("&*", Sort::Global), ("*!", Sort::Global)] {
        if let Some(name) = name.strip_prefix(mark) {
            return (sort, name);
        }
    }
    (Sort::Plain, name)
}

/// `NAME:NUMBER`, with its sort; a note if it is something else.
fn feature<'a>(word: Word<'a>, problems: &mut Problems) -> Option<(Sort, &'a str, f64)> {
    let read = pair(word).and_then(|(name, value)| Some((name, amount(value)?)));
    let Some((name, value)) = read else {
        problems.add(word.at, format!("`{}` is no feature: write NAME:NUMBER", shorten(word.text)));
        return None;
    };
    let (sort, name) = sort(name);
    Some((sort, name, value))
}

/// Words that were read and are not kept to, with how often they were met.
#[derive(Default)]
struct Ignored(BTreeMap<&'static str, u32>);

impl Ignored {
    fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    fn notes(self, file: &Path) -> Vec<String> {
        let file = file.display();
        self.0.into_iter().map(|(what, count)| format!("{file}: {what} ({count} times)")).collect()
    }
}

const GLOBAL: &str = "features and desires marked `*&`, `&*` or `*!` count for each node, not once for all";
const SUBNODE: &str = "`subnode_of` is not kept to";
const NUMBER: &str = "how many links a cable takes is not kept to, only its bandwidth";
const TRUNKS: &str = "trunks between the same two switches are taken as one that carries as much as all";
const MIX: &str = "`disallow_trivial_mix` is not kept to";
const FIX: &str = "`fixsrciface` and `fixdstiface` are not kept to";
const DELAY: &str = "`nodelay` and `mustdelay` say nothing here: links are delayed by the emulator";

/// Reads a `.ptop` file.
///
/// # Errors
///
/// [`Error::File`].
pub(crate) fn ptop(path: &Path) -> Result<Harness, Error> {
    let text = text(path, &CATALOG)?;
    let mut problems = Problems::new(CATALOG.the, path, &text);
    let mut harness = Harness::default();
    let mut ignored = Ignored::default();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut links: Vec<&Vec<Word<'_>>> = Vec::new();
    let lines = lines(&text, &mut problems);
    for line in &lines {
        match line[0].text {
            "node" => {
                let Some((place, name)) = ptop_node(line, &mut ignored, &mut problems) else { continue };
                if by_name.insert(name.text, harness.places.len()).is_some() {
                    let what = format!("a node is called `{}` already: rename one", shorten(name.text));
                    problems.add(name.at, what);
                }
                if harness.places.len() == PLACES {
                    problems.add(name.at, format!("this is the node after {PLACES} others, which are the most"));
                    break;
                }
                harness.places.push(place);
            }
            "link" => links.push(line),
            "set-type-limit" => {
                let mut rest = Rest::of(line, &mut problems);
                if let (Some(kind), Some(most)) = (rest.next("a type"), rest.number("a number of nodes")) {
                    harness.type_limits.push((kind.text.to_owned(), most as u32));
                }
            }
            _ => unknown(line, &["node", "link", "set-type-limit"], &mut problems),
        }
    }
    if harness.places.is_empty() && problems.none() {
        problems.add(Span::default(), "no line begins with `node`: a catalog has at least one");
    }
    let mut spans = Vec::new();
    let mut trunks: HashMap<[usize; 2], usize> = HashMap::new();
    for line in links {
        let Some(cable) = ptop_link(line, &by_name, &mut ignored, &mut problems) else { continue };
        let ends = [cable.ends[0].min(cable.ends[1]), cable.ends[0].max(cable.ends[1])];
        if ends[0] != ends[1] && ends.iter().all(|end| harness.places[*end].switch) {
            if let Some(first) = trunks.get(&ends) {
                ignored.note(TRUNKS);
                harness.cables[*first].bits_per_s += cable.bits_per_s;
                continue;
            }
            trunks.insert(ends, harness.cables.len());
        }
        harness.cables.push(cable);
        spans.push(line[0].at);
    }
    number_equals(&mut harness.cables);
    refuse_circles(&harness, &spans, &mut problems);
    if !problems.none() {
        return Err(problems.into_error().into());
    }
    harness.notes = ignored.notes(path);
    Ok(harness)
}

/// Notes a line that begins with an unknown word.
fn unknown(line: &[Word<'_>], known: &[&str], problems: &mut Problems) {
    let near = did_you_mean(line[0].text, known);
    let near = if near.is_empty() { format!(": lines begin with {}", known.join(", ")) } else { near };
    problems.add(line[0].at, format!("there are no lines `{} …`{near}", shorten(line[0].text)));
}

fn ptop_node<'a>(line: &[Word<'a>], ignored: &mut Ignored, problems: &mut Problems) -> Option<(Place, Word<'a>)> {
    let mut rest = Rest::of(line, problems);
    let name = rest.next("the name of a node")?;
    let mut place = Place::machine(name.text);
    // Types, then features, then flags; a dash is between them.
    let mut part = 0;
    for word in rest.words {
        match (part, word.text) {
            (_, "-") => part += 1,
            (0, _) => {
                let count = pair(*word).map(|(kind, count)| (kind, (count != "*").then(|| count.parse::<u32>().ok())));
                let Some((kind, slots)) = count.filter(|(_, count)| *count != Some(None)) else {
                    let shown = shorten(word.text);
                    problems.add(word.at, format!("`{shown}` is no type: write TYPE:COUNT, or TYPE:* for any number"));
                    continue;
                };
                let (kind, always) = kind.strip_prefix('*').map_or((kind, false), |kind| (kind, true));
                place.switch |= kind == SWITCH;
                place.types.push(TypeSlots { name: kind.to_owned(), slots: slots.flatten(), always });
            }
            (1, _) => {
                let Some((sort, name, value)) = feature(*word, problems) else { continue };
                if matches!(sort, Sort::Global) {
                    ignored.note(GLOBAL);
                }
                let used_up = matches!(sort, Sort::UsedUp);
                place.features.push(Feature { name: name.to_owned(), value, used_up });
            }
            (_, "unique") => place.unique = true,
            (_, text) => match text.split_once(':') {
                Some(("trivial_bw", kbits)) if amount(kbits).is_some() => {
                    place.inside_bits_per_s = amount(kbits).map(|kbits| kbits * UNIT);
                }
                Some(("subnode_of", _)) => ignored.note(SUBNODE),
                _ => {
                    let what = format!(
                        "there is no flag `{}`: flags are trivial_bw:NUMBER, subnode_of:NODE and unique",
                        shorten(text)
                    );
                    problems.add(word.at, what);
                }
            },
        }
    }
    if place.types.is_empty() {
        problems.add(name.at, "a node has at least one type: write it after its name, such as `pc:1`");
    }
    if !place.switch {
        // It is of one of its types at a time, but for those that it always is.
        let most = |always: bool| place.types.iter().filter(move |kind| kind.always == always).map(|kind| kind.slots);
        let one = most(false).try_fold(0, |largest, slots| Some(slots?.max(largest)));
        place.slots = one.zip(most(true).try_fold(0_u32, |sum, slots| sum.checked_add(slots?))).map(|(a, b)| a + b);
    } else {
        place.slots = None;
    }
    Some((place, name))
}

/// The node of `NODE:MAC/IFACE`.
fn end(word: Word<'_>, by_name: &HashMap<&str, usize>, problems: &mut Problems) -> Option<usize> {
    let name = word.text.split(':').next().unwrap_or_default();
    let found = by_name.get(name).copied();
    if found.is_none() {
        let names: Vec<&str> = by_name.keys().copied().collect();
        problems.add(word.at, format!("there is no node `{}`{}", shorten(name), did_you_mean(name, &names)));
    }
    found
}

fn ptop_link(
    line: &[Word<'_>],
    by_name: &HashMap<&str, usize>,
    ignored: &mut Ignored,
    problems: &mut Problems,
) -> Option<Cable> {
    let mut rest = Rest::of(line, problems);
    let name = rest.next("the name of a link")?;
    let ends = [rest.next("an end of it")?, rest.next("its other end")?];
    let bits_per_s = rest.bandwidth();
    rest.number("a delay");
    rest.number("a loss");
    let mut kinds = Vec::new();
    for word in rest.words {
        match word.text.parse::<u32>() {
            Ok(_) => ignored.note(NUMBER),
            Err(_) => kinds.push(word.text.to_owned()),
        }
    }
    let [a, b] = ends.map(|word| end(word, by_name, problems));
    Some(Cable { name: name.text.to_owned(), ends: [a?, b?], bits_per_s: bits_per_s?, kinds })
}

/// The wishes of a `.top` file.
///
/// # Errors
///
/// [`Error::File`]: what is wrong with it, each place with its line and a pointer into that line.
pub fn load_top(path: &Path) -> Result<Request, Error> {
    let text = text(path, &TOP)?;
    let mut problems = Problems::new(TOP.the, path, &text);
    let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut request = Request { name, ..Request::default() };
    let mut ignored = Ignored::default();
    let lines = lines(&text, &mut problems);
    for line in lines.iter().filter(|line| line[0].text == "make-vclass") {
        let mut rest = Rest::of(line, &mut problems);
        let (Some(name), Some(weight)) = (rest.next("the name of a class"), rest.number("a weight")) else { continue };
        let types: Vec<String> = rest.words.map(|word| word.text.to_owned()).collect();
        if types.is_empty() {
            problems.add(name.at, "a class has at least one type: write them after its weight");
        }
        request.classes.push(Class { name: name.text.to_owned(), weight, types });
    }
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for line in lines.iter().filter(|line| line[0].text == "node") {
        let Some((node, name)) = top_node(line, &request.classes, &mut ignored, &mut problems) else { continue };
        if by_name.insert(name.text, request.nodes.len()).is_some() {
            let what = format!("a node is called `{}` already: rename one", shorten(name.text));
            problems.add(name.at, what);
        }
        request.nodes.push(node);
    }
    for line in &lines {
        match line[0].text {
            "make-vclass" | "node" => {}
            "link" => {
                let link = top_link(line, &by_name, &mut ignored, &mut problems);
                request.links.extend(link);
            }
            keyword @ ("fix-node" | "node-hint") => {
                let mut rest = Rest::of(line, &mut problems);
                let (Some(node), Some(on)) = (rest.next("a node"), rest.next("a machine")) else { continue };
                let Some(node) = end(node, &by_name, &mut problems) else { continue };
                let place = Some(on.text.to_owned());
                match keyword {
                    "fix-node" => request.nodes[node].on = place,
                    _ => request.nodes[node].hint = place,
                }
            }
            _ => unknown(line, &["node", "link", "make-vclass", "fix-node", "node-hint"], &mut problems),
        }
    }
    if request.nodes.is_empty() && problems.none() {
        problems.add(Span::default(), "no line begins with `node`: a topology has at least one");
    }
    if !problems.none() {
        return Err(problems.into_error().into());
    }
    request.notes = ignored.notes(path);
    Ok(request)
}

fn top_node<'a>(
    line: &[Word<'a>],
    classes: &[Class],
    ignored: &mut Ignored,
    problems: &mut Problems,
) -> Option<(Wanted, Word<'a>)> {
    let mut rest = Rest::of(line, problems);
    let name = rest.next("the name of a node")?;
    let kind = rest.next("its type")?;
    let (kind_name, slots) = match kind.text.split_once(':') {
        None => (kind.text, Some(1)),
        Some((name, slots)) => (name, slots.parse().ok()),
    };
    let Some(slots) = slots else {
        rest.problems.add(kind.at, "write TYPE, or TYPE:SLOTS with a number of slots");
        return None;
    };
    let class = classes.iter().position(|class| class.name == kind_name);
    let kind = class.map_or_else(|| Kind::Type(kind_name.to_owned()), Kind::Class);
    let mut node = Wanted { name: name.text.to_owned(), kind, slots, ..Wanted::default() };
    for word in rest.words {
        match word.text {
            "disallow_trivial_mix" => ignored.note(MIX),
            text if text.starts_with("subnode_of:") => ignored.note(SUBNODE),
            _ => {
                let Some((sort, name, value)) = feature(*word, problems) else { continue };
                if matches!(sort, Sort::Global) {
                    ignored.note(GLOBAL);
                }
                node.wants.push((name.to_owned(), value));
            }
        }
    }
    Some((node, name))
}

fn top_link(
    line: &[Word<'_>],
    by_name: &HashMap<&str, usize>,
    ignored: &mut Ignored,
    problems: &mut Problems,
) -> Option<WantedLink> {
    let mut rest = Rest::of(line, problems);
    let name = rest.next("the name of a link")?;
    let ends = [rest.next("an end of it")?, rest.next("its other end")?];
    let bits_per_s = rest.bandwidth();
    let (delay, loss) = (rest.number("a delay"), rest.number("a loss"));
    let (mut shares, mut inside, mut kind) = (false, false, None);
    for (i, word) in rest.words.enumerate() {
        match word.text {
            "emulated" => shares = true,
            "trivial_ok" => inside = true,
            "nodelay" | "mustdelay" => ignored.note(DELAY),
            text if text.starts_with("fixsrciface:") || text.starts_with("fixdstiface:") => ignored.note(FIX),
            // Later files have a type before the flags.
            text if i == 0 => kind = Some(text.to_owned()),
            text => {
                let what = format!(
                    "there is no flag `{}`: flags are emulated, trivial_ok, nodelay, mustdelay, fixsrciface:NAME and \
                     fixdstiface:NAME",
                    shorten(text)
                );
                problems.add(word.at, what);
            }
        }
    }
    let [a, b] = ends.map(|word| end(word, by_name, problems));
    let target = Target { delay_s: delay? / 1e3, bits_per_s, loss: loss? };
    let ends = [a?, b?];
    Some(WantedLink {
        name: name.text.to_owned(),
        ends,
        bits_per_s: Some(bits_per_s?),
        shares,
        inside,
        kind,
        target: [target; 2],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_where_they_stand() {
        let text = "# not this\n\nnode  ä b\r\n\tlink x\n";
        let lines = lines(text, &mut Problems::new("a test", Path::new("a.ptop"), text));
        let chars: Vec<char> = text.chars().collect();
        for word in lines.iter().flatten() {
            assert_eq!(chars[word.at.start..word.at.end].iter().collect::<String>(), word.text);
        }
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
    }

    #[test]
    fn amounts_are_plain_numbers() {
        assert_eq!((amount("1.5"), amount("2e3"), amount("0")), (Some(1.5), Some(2000.0), Some(0.0)));
        assert_eq!((amount("-1"), amount("nan"), amount("inf"), amount("x")), (None, None, None, None));
    }
}
