//! Draws the picture of a run into cells: nothing here reads a file or knows a terminal.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use record::{Status, Verdict};

use super::picture::{Picture, Stage, shown};

/// The most rows of a list in a picture that is printed.
const PRINTED: usize = 200;
/// How many events a picture that is printed ends with.
const PRINTED_EVENTS: usize = 20;
/// From this height on of what is below the head, all panes are seen at once.
const ALL_AT_ONCE: u16 = 15;
/// How wide a bar is, and the widest a name may be.
const BAR: usize = 10;
const WIDEST_NAME: usize = 32;
/// Between two columns.
const GAP: usize = 2;

const PLAIN: Style = Style::new();
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const WEAK: Style = Style::new().add_modifier(Modifier::DIM);
const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red);

/// A part of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    #[default]
    Nodes,
    Links,
    Events,
    Checks,
}

impl Pane {
    const ALL: [Pane; 4] = [Pane::Nodes, Pane::Links, Pane::Events, Pane::Checks];
}

/// The part that somebody looks at.
#[derive(Debug, Default)]
pub struct View {
    pub pane: Pane,
    /// By pane, how many rows are above the first that is seen; of events, below the last.
    scrolled: [usize; 4],
}

impl View {
    /// Moves by so many rows downwards.
    pub fn scroll(&mut self, rows: isize) {
        // The newest event is at the bottom.
        let rows = if self.pane == Pane::Events { rows.saturating_neg() } else { rows };
        let place = &mut self.scrolled[self.pane as usize];
        *place = place.saturating_add_signed(rows);
    }

    /// Goes on to another pane.
    pub fn next(&mut self, by: isize) {
        let place = (self.pane as isize + by).rem_euclid(Pane::ALL.len() as isize);
        self.pane = Pane::ALL[place as usize];
    }
}

/// The rows of a pane, below its title.
struct Table {
    title: String,
    columns: Vec<Column>,
    /// Each with its cells.
    rows: Vec<Vec<(String, Style)>>,
    /// Whether what comes last matters most.
    ends_with_newest: bool,
}

struct Column {
    head: &'static str,
    /// At least; a cell that is wider makes it so.
    width: usize,
    is_number: bool,
}

fn column(head: &'static str, width: usize) -> Column {
    Column { head, width, is_number: false }
}

fn number(head: &'static str, width: usize) -> Column {
    Column { head, width, is_number: true }
}

/// Draws all of a screen.
pub fn screen(picture: &Picture, view: &mut View, area: Rect, buffer: &mut Buffer) {
    let head = head(picture);
    let mut top = area.y;
    for (text, style) in head {
        if top < area.bottom() {
            put(buffer, area.x, top, &text, area.width, style);
            top += 1;
        }
    }
    let keys = u16::from(area.bottom().saturating_sub(top) > 3);
    let body = Rect { y: top, height: area.bottom().saturating_sub(top + keys), ..area };
    let all_at_once = body.height >= ALL_AT_ONCE;
    let seen: Vec<Pane> = match all_at_once {
        true => vec![Pane::Nodes, Pane::Links, if view.pane == Pane::Checks { Pane::Checks } else { Pane::Events }],
        false => vec![view.pane],
    };
    let tables: Vec<Table> = seen.iter().map(|pane| table(picture, *pane)).collect();
    let wanted: Vec<u16> = tables.iter().map(Table::height).collect();
    let focus = seen.iter().position(|pane| *pane == view.pane).unwrap_or_default();
    let mut place = body;
    for ((pane, table), height) in seen.iter().zip(&tables).zip(heights(&wanted, focus, body.height)) {
        place.height = height;
        let scrolled = &mut view.scrolled[*pane as usize];
        table.draw(place, scrolled, *pane == view.pane, buffer);
        place.y += height;
    }
    if keys > 0 {
        let keys = "q leaves (the run goes on) · tab: next pane · ↑↓ j k: scroll";
        put(buffer, area.x, area.bottom() - 1, keys, area.width, WEAK);
    }
}

/// A picture to be printed: plain lines.
pub fn text(picture: &Picture, width: u16) -> String {
    let head = head(picture);
    let tables: Vec<Table> = Pane::ALL.iter().map(|pane| printed(table(picture, *pane))).collect();
    let height = head.len() as u16 + tables.iter().map(|table| table.height() + 1).sum::<u16>();
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let mut top = 0;
    for (line, style) in &head {
        put(&mut buffer, 0, top, line, width, *style);
        top += 1;
    }
    for table in &tables {
        let place = Rect::new(0, top + 1, width, table.height());
        table.draw(place, &mut 0, false, &mut buffer);
        top = place.bottom();
    }
    lines_of(&buffer)
}

/// The text of cells, line by line.
fn lines_of(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // A wide character takes the cell behind it, too.
            x += ratatui::text::Span::raw(symbol).width().max(1) as u16;
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Cuts a table to what is printed.
fn printed(mut table: Table) -> Table {
    let more = table.rows.len().saturating_sub(if table.ends_with_newest { PRINTED_EVENTS } else { PRINTED });
    if table.ends_with_newest {
        table.rows.drain(..more);
    } else if more > 0 {
        table.rows.truncate(PRINTED);
        table.title = format!("{}, the first {PRINTED} of them", table.title);
    }
    table
}

/// Of so much height as there is, how much each pane gets: at least its part, and the one that is looked at what the
/// others leave.
fn heights(wanted: &[u16], focus: usize, height: u16) -> Vec<u16> {
    let part = height / wanted.len().max(1) as u16;
    let mut given: Vec<u16> = wanted.iter().map(|wanted| *wanted.min(&part)).collect();
    let left = |given: &[u16]| height.saturating_sub(given.iter().sum());
    for place in std::iter::once(focus).chain(0..wanted.len()) {
        let more = left(&given).min(wanted[place] - given[place]);
        given[place] += more;
    }
    let rest = left(&given);
    given[focus] += rest;
    given
}

/// Writes a text that is cut where there is no room.
fn put(buffer: &mut Buffer, x: u16, y: u16, text: &str, width: u16, style: Style) {
    if width > 0 {
        buffer.set_stringn(x, y, text, width as usize, style);
    }
}

impl Table {
    /// With its title and the heads of its columns.
    fn height(&self) -> u16 {
        (self.rows.len() + 1 + usize::from(self.has_heads())).min(usize::from(u16::MAX / 8)) as u16
    }

    fn has_heads(&self) -> bool {
        self.columns.iter().any(|column| !column.head.is_empty())
    }

    /// Draws it as far as there is room; `scrolled` is brought to what there is.
    fn draw(&self, area: Rect, scrolled: &mut usize, is_focus: bool, buffer: &mut Buffer) {
        if area.height == 0 || area.width == 0 {
            return;
        }
        let heads = u16::from(self.has_heads() && area.height > 2);
        let room = usize::from(area.height - 1 - heads);
        *scrolled = (*scrolled).min(self.rows.len().saturating_sub(room));
        let first = if self.ends_with_newest { self.rows.len().saturating_sub(room + *scrolled) } else { *scrolled };
        let last = (first + room).min(self.rows.len());
        let part = match last - first {
            seen if seen == self.rows.len() => String::new(),
            0 => String::new(),
            _ => format!(" ({}–{} of {})", first + 1, last, self.rows.len()),
        };
        let title = format!("── {}{part} ", self.title);
        let title = format!("{title}{}", "─".repeat(usize::from(area.width)));
        put(
            buffer,
            area.x,
            area.y,
            &title,
            area.width,
            if is_focus { STRONG.add_modifier(Modifier::REVERSED) } else { STRONG },
        );
        let columns = self.fitting(area.width);
        let mut y = area.y + 1;
        if heads > 0 {
            let heads: Vec<_> = self.columns.iter().map(|column| (column.head.to_string(), WEAK)).collect();
            self.row(&heads, columns, Rect { y, height: 1, ..area }, buffer);
            y += 1;
        }
        for row in &self.rows[first..last] {
            self.row(row, columns, Rect { y, height: 1, ..area }, buffer);
            y += 1;
        }
    }

    /// How many columns have room; the first always.
    fn fitting(&self, width: u16) -> usize {
        let mut taken = 0;
        let fits = self.columns.iter().take_while(|column| {
            let needs = if taken == 0 { 0 } else { GAP } + column.width;
            taken += needs;
            taken <= usize::from(width)
        });
        fits.count().max(1)
    }

    fn row(&self, cells: &[(String, Style)], columns: usize, area: Rect, buffer: &mut Buffer) {
        let mut x = area.x;
        for (place, ((text, style), column)) in cells.iter().zip(&self.columns).take(columns).enumerate() {
            let left = area.right().saturating_sub(x);
            let is_last = place + 1 == columns;
            // The last of a row has what is left.
            let width = if is_last && !column.is_number { left } else { left.min(column.width as u16) };
            let length = text.chars().count();
            let indent = if column.is_number { column.width.saturating_sub(length) as u16 } else { 0 };
            put(buffer, x + indent.min(width), area.y, text, width.saturating_sub(indent), *style);
            x = x.saturating_add((column.width + GAP) as u16).min(area.right());
        }
    }
}

/// The lines above the panes.
fn head(picture: &Picture) -> Vec<(String, Style)> {
    let variant = if picture.variant.is_empty() { String::new() } else { format!(" · {}", picture.variant) };
    let tdf = picture.tdf.as_ref().map_or_else(String::new, |tdf| format!(" · TDF {tdf}"));
    let first = format!("{}{variant}{tdf} · {}", picture.name, where_it_is(picture));
    let mut lines = vec![(first, STRONG), (progress(picture), PLAIN), verdict(picture)];
    if let Some(trouble) = &picture.trouble {
        lines.push((format!("cannot be read further: {trouble}"), BAD));
    } else if picture.bad_lines > 0 {
        lines
            .push((format!("{} lines of its files are not what they should be, and left out", picture.bad_lines), BAD));
    }
    lines
}

/// Where a run is, in a word or a few.
pub fn where_it_is(picture: &Picture) -> String {
    match picture.stage {
        Stage::Live => picture.progress.step.clone().unwrap_or_else(|| "live".into()),
        Stage::Unknown => "whether it lives, only root can see".into(),
        Stage::Suspended => "suspended".into(),
        Stage::Over => match &picture.result {
            Some(result) if result.status == Status::Ok => "ended".into(),
            Some(_) => "failed".into(),
            None => "gone".into(),
        },
    }
}

/// How far it is: a bar if one knows its end, and times.
fn progress(picture: &Picture) -> String {
    let now = picture.now_s();
    if let Some(result) = &picture.result {
        return format!("{:.1} virtual s in {} of real time", result.virtual_seconds, told_s(result.real_seconds));
    }
    let running = match picture.progress.running {
        Some(running) => format!(" · {running} of {} nodes run", picture.nodes.all.len()),
        None => String::new(),
    };
    let is_known = picture.stage == Stage::Live;
    match (picture.progress.end_s.filter(|end| *end > 0.0), picture.progress.left_real_s) {
        (Some(end), Some(left)) if is_known => {
            format!("{} virtual {now:.1} of {end:.1} s · {} left{running}", bar(now / end), told_s(left))
        }
        _ => format!("virtual {now:.1} s{running}"),
    }
}

/// The verdict, as far as it is known.
pub fn verdict(picture: &Picture) -> (String, Style) {
    let Some(result) = &picture.result else {
        let beyond: Vec<_> =
            picture.standing().iter().filter(|check| check.is_beyond).map(|check| check.name.to_string()).collect();
        if !beyond.is_empty() && matches!(picture.stage, Stage::Live | Stage::Unknown) {
            let text = format!("verdict: comes at the end; so far beyond 5 % for work: {}", beyond.join(", "));
            return (text, BAD);
        }
        let text = match picture.stage {
            Stage::Live | Stage::Unknown => "verdict: comes at the end, when the checks are made",
            Stage::Suspended => "no verdict yet: it is suspended, and `diorama swap in` goes on with it",
            Stage::Over => "no verdict: it ended without a result, as a run that was killed does",
        };
        return (text.into(), PLAIN);
    };
    if result.status != Status::Ok {
        return (format!("failed: {}", shown(result.why.as_deref().unwrap_or("nobody said why"))), BAD);
    }
    match (result.fidelity.verdict, result.fidelity.reasons().first()) {
        (Verdict::Trustworthy, _) => ("verdict: trustworthy".into(), GOOD),
        (Verdict::Suspect, Some(reason)) => (format!("verdict: suspect: {}", shown(reason)), BAD),
        (Verdict::Suspect, None) => ("verdict: suspect".into(), BAD),
    }
}

fn table(picture: &Picture, pane: Pane) -> Table {
    let mut table = match pane {
        Pane::Nodes => nodes(picture),
        Pane::Links => links(picture),
        Pane::Events => events(picture),
        Pane::Checks => checks(picture),
    };
    // Half a number is a wrong one; texts are cut.
    for (place, column) in table.columns.iter_mut().enumerate().filter(|(_, column)| column.is_number) {
        let widest = table.rows.iter().map(|row| row[place].0.chars().count()).max();
        column.width = column.width.max(widest.unwrap_or_default());
    }
    table
}

fn nodes(picture: &Picture) -> Table {
    let all = &picture.nodes.all;
    let cells = |(name, node): &(String, super::picture::Node)| {
        let of = node.of_cpus.map_or_else(String::new, |of| format!(" of {of}"));
        let cpus = node.cpus.map_or_else(unknown, |cpus| format!("{cpus:.2}{of}"));
        let part = node.cpus.zip(node.of_cpus).map(|(cpus, of)| cpus / f64::from(of.max(1)));
        let of = node.of_memory.map_or_else(String::new, |of| format!(" of {}", bytes(of as f64)));
        let memory = node.memory.map_or_else(unknown, |memory| format!("{}{of}", bytes(memory as f64)));
        let full = node.memory.zip(node.of_memory).is_some_and(|(used, of)| used as f64 > 0.95 * of as f64);
        let rates = |rates: Option<[f64; 2]>| rates.map(|rates| rates.map(bytes));
        let disk = rates(node.disk).map_or_else(String::new, |[read, written]| format!("{read} / {written}"));
        let busy = node.disk_use.map_or_else(String::new, percent);
        let traffic = rates(node.traffic).map_or_else(unknown, |[to, from]| format!("{to} / {from}"));
        vec![
            (name.clone(), PLAIN),
            (cpus, PLAIN),
            (memory, if full { BAD } else { PLAIN }),
            (part.map_or_else(String::new, bar), load(part)),
            (node.state.to_string(), PLAIN),
            (traffic, PLAIN),
            (disk, PLAIN),
            (busy, load(node.disk_use)),
        ]
    };
    Table {
        title: format!("Nodes: {}", all.len()),
        columns: vec![
            column("node", name_width(all.iter().map(|(name, _)| name))),
            number("CPUs", 9),
            number("memory", 16),
            column("", BAR),
            column("state", 8),
            number("in / out a virtual s", 20),
            number("disk read / written", 19),
            number("busy", 5),
        ],
        rows: all.iter().map(cells).collect(),
        ends_with_newest: false,
    }
}

fn links(picture: &Picture) -> Table {
    let all = &picture.links.all;
    let cells = |(name, link): &(String, super::picture::Link)| {
        let now = picture.now_of(link);
        let used = now.and_then(|now| now.utilisation);
        let of = link.bits_per_s.map_or_else(String::new, |of| format!(" of {}", bits(of)));
        vec![
            (name.clone(), PLAIN),
            (used.map_or_else(unknown, percent), load(used)),
            (now.map_or_else(unknown, |now| format!("{:.1}", now.queue_mean)), PLAIN),
            (now.map_or_else(unknown, |now| now.queue_max.to_string()), PLAIN),
            (used.map_or_else(String::new, bar), load(used)),
            (now.map_or_else(unknown, |now| format!("{}{of}", bits(now.bits_per_s))), PLAIN),
            (
                now.map_or_else(unknown, |now| now.lost.to_string()),
                if now.is_some_and(|n| n.lost > 0) { BAD } else { PLAIN },
            ),
        ]
    };
    Table {
        title: format!("Links: {} directions", all.len()),
        columns: vec![
            column("link", name_width(all.iter().map(|(name, _)| name))),
            number("use", 6),
            number("queue", 7),
            number("most", 5),
            column("", BAR),
            number("rate", 25),
            number("lost", 6),
        ],
        rows: all.iter().map(cells).collect(),
        ends_with_newest: false,
    }
}

fn events(picture: &Picture) -> Table {
    Table {
        title: format!("Events: {}", picture.events_seen),
        columns: vec![column("", 1)],
        rows: picture.events.iter().map(|event| vec![(event.clone(), PLAIN)]).collect(),
        ends_with_newest: true,
    }
}

fn checks(picture: &Picture) -> Table {
    let mut rows = Vec::new();
    for speed in picture.speeds.values() {
        let of = speed.percent_of_reference.map_or_else(unknown, |percent| format!("{percent:.1} %"));
        let says = format!(
            "of its usual speed in the last virtual s known; {} of it short of what was owed",
            percent(speed.capped)
        );
        rows.push(vec![(String::new(), PLAIN), (format!("core {}", speed.core), PLAIN), (of, PLAIN), (says, WEAK)]);
    }
    for check in picture.standing() {
        let (mark, style) = if check.is_beyond { ("NO", BAD) } else { ("…", PLAIN) };
        let value = format!("{:.3} {}", check.value, check.unit);
        let says = format!("So far: {}", check.says);
        rows.push(vec![(mark.into(), style), (check.name.to_string(), PLAIN), (value, PLAIN), (says, WEAK)]);
    }
    for check in picture.result.iter().flat_map(|result| &result.fidelity.checks) {
        let (mark, style) = match check.ok {
            Some(true) => ("ok", GOOD),
            Some(false) => ("NO", BAD),
            None => ("–", PLAIN),
        };
        let value = check.value.map_or_else(unknown, |value| format!("{value:.3} {}", shown(&check.unit)));
        rows.push(vec![
            (mark.into(), style),
            (check.name.to_string(), PLAIN),
            (value, PLAIN),
            (shown(&check.says), WEAK),
        ]);
    }
    let title = match &picture.result {
        Some(result) => format!("Checks: {}", result.fidelity.checks.len()),
        None => "Checks: so far; the others are made at the end".into(),
    };
    let columns = vec![column("", 2), column("check", 22), number("value", 18), column("says", 20)];
    Table { title, columns, rows, ends_with_newest: false }
}

/// The checks without their looks: the mark, the name, the value, and what was seen.
pub fn checks_told(picture: &Picture) -> Vec<[String; 4]> {
    let rows = checks(picture).rows.into_iter();
    rows.filter_map(|row| row.into_iter().map(|(text, _)| text).collect::<Vec<_>>().try_into().ok()).collect()
}

fn name_width<'a>(names: impl Iterator<Item = &'a String>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(4, WIDEST_NAME)
}

fn unknown() -> String {
    "–".into()
}

/// Red where little is left.
fn load(part: Option<f64>) -> Style {
    match part {
        Some(part) if part > 0.95 => BAD,
        Some(part) if part > 0.0 => GOOD,
        _ => PLAIN,
    }
}

fn bar(part: f64) -> String {
    // A part that is no number is none.
    let full = (part.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

fn bytes(bytes: f64) -> String {
    prefixed(bytes, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB"])
}

fn bits(bits: f64) -> String {
    prefixed(bits, 1000.0, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// At most three digits before the point.
fn prefixed(mut value: f64, step: f64, units: [&str; 5]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} {}", units[0]),
        _ if value >= 99.5 => format!("{value:.0} {}", units[unit]),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

/// `2 h 05 min`, `7 min 30 s`, `12 s`.
fn told_s(seconds: f64) -> String {
    let s = seconds.max(0.0).round() as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use record::{Check, CheckName, Fidelity, NodeInterval, RunResult};

    use super::super::picture::tests::{event, pipe, plan};
    use super::*;

    /// A run of so many nodes in its third second.
    fn live(nodes: usize) -> Picture {
        let mut picture = Picture::default();
        picture.plan(&plan(nodes));
        picture.progress.virtual_s = Some(3.25);
        picture.progress.end_s = Some(10.0);
        picture.progress.left_real_s = Some(67.5);
        picture.progress.running = Some(nodes);
        picture.event(&event("zero", None, 0.0));
        for n in 1..=nodes {
            let node = format!("n-{n}");
            let row = NodeInterval { from_s: 2.0, to_s: 3.0, node: &node, cpus: Some(0.5), ..NodeInterval::default() };
            picture.node(&NodeInterval { memory_bytes: Some(125 << 20), bytes_in: 2048, ..row });
            picture.pipe(&pipe(&format!("n-{n}--core/ab"), 3.0, 0.97));
            picture.event(&event("ready", Some(&node), 1.0));
        }
        picture
    }

    fn ended(verdict: Verdict, why: &str) -> Picture {
        let check = |name, ok| Check {
            name,
            value: Some(0.25),
            limit: None,
            unit: "%".into(),
            ok,
            effect_percent: None,
            effect_range_percent: None,
            says: "It was\nseen.".into(),
        };
        let checks = vec![check(CheckName::ClockRate, Some(true)), check(CheckName::Caches, Some(false))];
        let why: Vec<String> = vec![why.into()];
        let fidelity = Fidelity { verdict, accuracy_percent: None, why, core_speed: None, checks };
        let result = RunResult {
            experiment: "web".into(),
            variant: record::Variant::Scaled,
            tdf: "10".parse().unwrap(),
            scaling_factor: 1.0,
            status: Status::Ok,
            why: None,
            virtual_seconds: 10.0,
            real_seconds: 100.4,
            metrics: Default::default(),
            nodes: Default::default(),
            fidelity,
        };
        let mut picture = live(2);
        (picture.stage, picture.result) = (Stage::Over, Some(result));
        picture
    }

    /// The lines of a screen.
    fn drawn(picture: &Picture, view: &mut View, [columns, rows]: [u16; 2]) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| screen(picture, view, frame.area(), frame.buffer_mut())).unwrap();
        lines_of(terminal.backend().buffer()).lines().map(str::to_string).collect()
    }

    #[test]
    fn a_large_terminal_shows_everything() {
        let lines = drawn(&live(2), &mut View::default(), [120, 30]);
        assert_eq!(lines[0], "web-\\x1b[2Jhalf · scaled · TDF 10 · live");
        assert_eq!(lines[1], "███░░░░░░░ virtual 3.2 of 10.0 s · 1 min 08 s left · 2 of 2 nodes run");
        assert_eq!(lines[2], "verdict: comes at the end, when the checks are made");
        assert!(lines[3].starts_with("── Nodes: 2 ────"), "{lines:#?}");
        let cells: Vec<&str> = lines[5].split_whitespace().collect();
        assert_eq!(
            cells[..12],
            ["n-1", "0.50", "of", "2", "125", "MiB", "of", "128", "MiB", "███░░░░░░░", "ready", "2.0"],
            "{lines:#?}"
        );
        let links = lines.iter().position(|line| line.starts_with("── Links: 4 directions ─")).unwrap();
        let busy: Vec<&str> = lines[links + 2].split_whitespace().collect();
        assert_eq!(busy[..6], ["n-1--core/ab", "97", "%", "2.5", "9", "██████████"]);
        assert_eq!(busy[6..], ["10.0", "Mbit/s", "of", "100", "Mbit/s", "3"]);
        assert!(lines[links + 3].split_whitespace().eq(["n-1--core/ba", "–", "–", "–", "–", "–"]), "{lines:#?}");
        let events = lines.iter().position(|line| line.starts_with("── Events: 3 ─")).unwrap();
        assert!(lines[events + 3].contains("ready         n-2"), "{lines:#?}");
        assert!(lines[29].starts_with("q leaves (the run goes on)"), "{lines:#?}");
    }

    #[test]
    fn a_small_terminal_shows_one_pane_and_tab_the_next() {
        let (picture, mut view) = (live(2), View::default());
        let lines = drawn(&picture, &mut view, [40, 10]);
        assert!(lines.iter().all(|line| line.chars().count() <= 40) && lines.len() == 10, "{lines:#?}");
        assert!(lines[3].starts_with("── Nodes: 2 ─") && lines[5].starts_with("n-1   0.50 of 2"), "{lines:#?}");
        let mut titles = Vec::new();
        for _ in Pane::ALL {
            view.next(1);
            titles.push(drawn(&picture, &mut view, [40, 10])[3].split([':', ' ']).nth(1).unwrap().to_string());
        }
        assert_eq!(titles, ["Links", "Events", "Checks", "Nodes"]);
        view.next(-1);
        assert_eq!(view.pane, Pane::Checks);
    }

    #[test]
    fn nothing_is_too_small_or_too_large() {
        let (picture, mut view) = (live(1_000), View::default());
        for size in [[1, 1], [2, 3], [3, 40], [40, 2], [500, 4], [7, 19], [300, 100]] {
            for _ in Pane::ALL {
                drawn(&picture, &mut view, size);
                view.next(1);
            }
        }
        view.scroll(isize::MAX);
        let lines = drawn(&picture, &mut view, [80, 24]);
        assert!(lines[3].contains("of 1000)") && lines.iter().any(|line| line.starts_with("n-1000 ")), "{lines:#?}");
        view.scroll(-1);
        assert!(drawn(&picture, &mut view, [80, 24]).iter().all(|line| !line.starts_with("n-1000 ")));
        view.scroll(isize::MIN);
        assert!(drawn(&picture, &mut view, [80, 24])[5].starts_with("n-1 "));
    }

    #[test]
    fn the_newest_events_are_seen_first_and_older_ones_above() {
        let (picture, mut view) = (live(100), View { pane: Pane::Events, ..View::default() });
        assert!(drawn(&picture, &mut view, [60, 12])[10].contains("n-100"));
        view.scroll(-3);
        let lines = drawn(&picture, &mut view, [60, 12]);
        assert!(lines[10].contains("n-97") && lines[3].contains("(92–98 of 101)"), "{lines:#?}");
        view.scroll(isize::MIN);
        assert!(drawn(&picture, &mut view, [60, 12])[4].contains("zero"));
    }

    #[test]
    fn an_ended_run_shows_its_verdict_and_its_checks() {
        let picture = ended(Verdict::Suspect, "latency\u{1b}[m may be off.");
        let text = text(&picture, 100);
        assert!(text.contains("\nverdict: suspect: latency\\x1b[m may be off.\n"), "{text}");
        assert!(text.contains(" · ended\n10.0 virtual s in 1 min 40 s of real time\n"), "{text}");
        assert!(text.contains("\nok  clock-rate ") && text.contains("\nNO  caches "), "{text}");
        assert!(text.contains("It was\\nseen."), "{text}");
        let trusted = drawn(&ended(Verdict::Trustworthy, ""), &mut View::default(), [80, 24]);
        assert_eq!(trusted[2], "verdict: trustworthy");
        let mut gone = ended(Verdict::Trustworthy, "");
        gone.result = None;
        assert!(drawn(&gone, &mut View::default(), [80, 24])[2].starts_with("no verdict: it ended without a result"));
    }

    #[test]
    fn a_check_that_is_beyond_already_is_told_before_the_end() {
        let mut picture = live(1);
        let speed = |percent| record::SpeedInterval {
            virtual_s: 1.0,
            core: 3,
            units_per_us: Some(8.0 * percent),
            percent_of_reference: Some(percent),
            k: 1.0,
            capped: 0.0,
        };
        picture.speed(speed(99.0));
        let within = text(&picture, 120);
        assert!(within.contains("\nverdict: comes at the end, when the checks are made\n"), "{within}");
        assert!(within.contains("\n…   core-speed              99.000 % of the reference"), "{within}");
        picture.speed(speed(50.0));
        let beyond = text(&picture, 120);
        assert!(beyond.contains("\nverdict: comes at the end; so far beyond 5 % for work: core-speed\n"), "{beyond}");
        assert!(beyond.contains("\nNO  core-speed  ") && beyond.contains("  So far: core 3 did "), "{beyond}");
        let mut over = ended(Verdict::Trustworthy, "");
        over.speed(speed(50.0));
        assert!(!text(&over, 120).contains("So far"), "the result has the checks");
    }

    #[test]
    fn a_printed_picture_has_no_control_characters_and_is_bounded() {
        let text = text(&live(1_000), 90);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 90));
        assert!(text.contains("Nodes: 1000, the first 200 of them") && text.lines().count() < 450, "{text}");
        let shrunk = super::text(&live(1), 20);
        assert!(shrunk.lines().all(|line| line.chars().count() <= 20), "{shrunk}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 999.0, 1023.0, 125.0 * 1048576.0].map(bytes), ["0 B", "999 B", "1.0 KiB", "125 MiB"]);
        assert_eq!([1e7, 1e9, 2.5e9].map(bits), ["10.0 Mbit/s", "1.0 Gbit/s", "2.5 Gbit/s"]);
        assert_eq!([4.6, 67.5, 7_500.0].map(told_s), ["5 s", "1 min 08 s", "2 h 05 min"]);
        assert_eq!((bar(f64::NAN), bar(7.0)), ("░".repeat(BAR), "█".repeat(BAR)));
    }

    #[test]
    fn panes_share_the_height() {
        assert_eq!(heights(&[4, 5, 3], 0, 30), [22, 5, 3]);
        assert_eq!(heights(&[100, 100, 100], 1, 30), [10, 10, 10]);
        assert_eq!(heights(&[100, 4, 100], 2, 30), [10, 4, 16]);
        assert_eq!(heights(&[100], 0, 3), [3]);
    }
}
