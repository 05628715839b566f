// The page of `diorama serve`. What comes from runs is only ever put into the page as text.
'use strict';

const may = document.body.dataset.may;
const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes and children; texts are text. */
function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}
function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}
function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(key, value);
    else if (value !== null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

const known = (value, told) => (value === null || value === undefined ? '–' : told(value));
const percent = (part) => `${Math.round(100 * part)} %`;
function prefixed(value, step, units) {
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) { value /= step; unit += 1; }
  return `${unit === 0 || value >= 100 ? value.toFixed(0) : value.toPrecision(3)} ${units[unit]}`;
}
const bytes = (value) => prefixed(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
const bits = (value) => prefixed(value, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s']);
function lasting(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
}

/** Replaces the rows of a table; columns are [title, class]. */
function table(id, columns, rows) {
  const cell = (tag) => (value, n) => make(tag, { class: columns[n][1] || null }, value);
  const body = make('tbody', {}, ...rows.map((row) => make('tr', {}, ...row.map(cell('td')))));
  $(id).replaceChildren(make('thead', {}, make('tr', {}, ...columns.map(([title], n) => cell('th')(title, n)))), body);
}

// ---- Parts of the page.

function show(part) {
  for (const button of document.querySelectorAll('nav button')) {
    button.setAttribute('aria-pressed', button.dataset.part === part);
    $(button.dataset.part).hidden = button.dataset.part !== part;
  }
  if (part === 'runs') list();
  if (part === 'check') begin();
}
for (const button of document.querySelectorAll('nav button')) {
  button.addEventListener('click', () => show(button.dataset.part));
}

// ---- Live runs.

let heads = [];
let watched = null;
let source = null;
let details = { nodes: [], links: [], checks: [] };

/** Hears of all live runs, and of one in detail. */
function listen() {
  if (source) source.close();
  source = new EventSource(watched ? `live?run=${encodeURIComponent(watched)}` : 'live');
  source.addEventListener('open', () => {
    $('heard').textContent = '';
    // Who comes anew is told all again.
    $('events').textContent = '';
  });
  source.addEventListener('error', ({ target }) => {
    $('heard').textContent = target.readyState === EventSource.CLOSED
      ? 'The server does not know this address: open the one that it printed when it started.'
      : 'No answer from the server; trying again.';
  });
  source.addEventListener('runs', (news) => runs(JSON.parse(news.data)));
  source.addEventListener('details', (news) => { details = JSON.parse(news.data); detailed(); });
  source.addEventListener('events', (news) => happened(JSON.parse(news.data)));
}

function watch(id) {
  watched = id;
  details = { nodes: [], links: [], checks: [] };
  $('events').textContent = '';
  $('events-seen').textContent = '';
  $('became').textContent = '';
  chart.forget();
  listen();
}

function runs(now) {
  const ended = heads.filter((run) => run.is_live).some((run) => !now.some((other) => other.id === run.id && other.is_live));
  heads = now;
  if (ended && !$('runs').hidden) list();
  const live = now.filter((run) => run.is_live).length;
  $('count').textContent = live ? `(${live})` : '';
  const head = now.find((run) => run.id === watched);
  if (!head) {
    const next = now.find((run) => run.is_live) || now[0];
    if (next) { watch(next.id); return; }
    if (watched) { watched = null; listen(); }
  }
  $('tabs').replaceChildren(...(now.length < 2 ? [] : now.map((run) => make('li', {}, make('button', {
    type: 'button', 'aria-pressed': run.id === watched, click: () => watch(run.id),
  }, `${run.name} · ${run.variant}`)))));
  $('none').hidden = now.length > 0;
  $('run').hidden = !head;
  if (head) where(head);
}

function where(head) {
  const tdf = head.tdf ? ` · TDF ${head.tdf}` : '';
  $('where').textContent = `${head.name} · ${head.variant}${tdf} · ${head.where}`;
  const end = head.end_s;
  $('bar').hidden = !end;
  if (end) $('bar').value = Math.min(1, (head.virtual_s || 0) / end);
  const parts = [`virtual ${known(head.virtual_s, (s) => s.toFixed(1))}${end ? ` of ${end.toFixed(1)}` : ''} s`];
  if (head.left_real_s !== null) parts.push(`${lasting(head.left_real_s)} left of real time`);
  if (head.running !== null) parts.push(`${head.running} of ${head.nodes} nodes run`);
  $('times').textContent = parts.join(' · ');
  $('verdict').textContent = head.verdict;
  $('trouble').textContent = head.trouble ? `It cannot be read further: ${head.trouble}`
    : head.bad_lines ? `${head.bad_lines} lines of its files are not what they should be, and left out` : '';
  $('fault').hidden = may !== 'everything' || !head.is_live;
}

function detailed() {
  const pair = (two) => known(two, ([a, b]) => `${bytes(a)} / ${bytes(b)}`);
  const of = (value, whole, told) => known(value, told) + (whole === null ? '' : ` of ${told(whole)}`);
  const disks = details.nodes.some((node) => node.disk);
  table('nodes', [['node', 'name'], ['state'], ['CPUs', 'n'], ['memory', 'n'], ['in / out a virtual s', 'n'],
    ...(disks ? [['disk read / written', 'n']] : [])], details.nodes.map((node) => [
    node.name, node.state, of(node.cpus, null, (cpus) => cpus.toFixed(2)) + (node.of_cpus ? ` of ${node.of_cpus}` : ''),
    of(node.memory, node.of_memory, bytes), pair(node.traffic), ...(disks ? [node.disk ? pair(node.disk) : ''] : []),
  ]));
  table('links', [['link', 'name'], ['use', 'n'], ['queue', 'n'], ['most', 'n'], ['rate', 'n'], ['lost', 'n']],
    details.links.map((link) => [
      link.name, known(link.use, percent), known(link.queue, (q) => q.toFixed(1)), known(link.queue_most, String),
      of(link.bits_per_s, link.of_bits_per_s, bits),
      make('span', { class: link.lost ? 'bad' : null }, known(link.lost, String)),
    ]));
  table('checks', [['', ''], ['check', 'name'], ['value', 'n'], ['says']], details.checks.map((check) => [
    make('span', { class: check.mark === 'NO' ? 'bad' : check.mark === 'ok' ? 'good' : null }, check.mark),
    check.name, check.value, check.says,
  ]));
  chart.show();
  targets();
}

const EVENTS_KEPT = 500;
function happened(news) {
  const place = $('events');
  const follows = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
  const lines = place.textContent.split('\n').filter((line) => line).concat(news.new);
  place.textContent = lines.slice(-EVENTS_KEPT).join('\n');
  $('events-seen').textContent = `${news.all}`;
  if (follows) place.scrollTop = place.scrollHeight;
}

// ---- The topology.

const chart = (() => {
  const [WIDTH, HEIGHT, RADIUS] = [960, 540, 20];
  const MOST_ARRANGED = 300;
  let shown = '';
  let places = new Map();
  let parts = { nodes: new Map(), pipes: new Map() };
  let chosen = null;

  const memory = () => {
    const head = heads.find((run) => run.id === watched);
    return `diorama-places:${head ? head.name : ''}`;
  };
  function remember() {
    try { localStorage.setItem(memory(), JSON.stringify([...places])); } catch { /* It is full, or not allowed. */ }
  }
  function remembered() {
    try {
      const all = JSON.parse(localStorage.getItem(memory()) || '[]');
      const right = ([name, at]) => typeof name === 'string' && Number.isFinite(at.x) && Number.isFinite(at.y);
      return new Map(all.filter(right).map(([name, at]) => [name, within(at)]));
    } catch { return new Map(); }
  }
  const within = ({ x, y }) => ({
    x: Math.min(WIDTH - 40, Math.max(40, x)), y: Math.min(HEIGHT - 36, Math.max(36, y)),
  });

  /** Places for those that have none: springs between neighbours, and everything pushes everything else away. */
  function arrange(names, edges, fixed) {
    const n = names.length;
    const at = names.map((name, i) => {
      const angle = (2 * Math.PI * i) / n;
      const ring = n > MOST_ARRANGED ? 0.55 + 0.45 * ((i % 4) / 3) : 0.8;
      return fixed.get(name) || {
        x: WIDTH / 2 + ring * (WIDTH / 2 - 60) * Math.cos(angle), y: HEIGHT / 2 + ring * (HEIGHT / 2 - 50) * Math.sin(angle),
      };
    });
    if (n > 1 && n <= MOST_ARRANGED) {
      const index = new Map(names.map((name, i) => [name, i]));
      const pairs = edges.map(([a, b]) => [index.get(a), index.get(b)]);
      const ideal = 0.8 * Math.sqrt((WIDTH * HEIGHT) / n);
      for (let round = 0; round < 200; round += 1) {
        const heat = 40 * (1 - round / 200);
        const push = at.map(() => ({ x: 0, y: 0 }));
        const force = (i, j, of) => {
          const [dx, dy] = [at[i].x - at[j].x || (i - j) * 0.01, at[i].y - at[j].y || 0.01];
          const far = Math.max(1, Math.hypot(dx, dy));
          const by = of(far) / far;
          push[i].x += dx * by; push[i].y += dy * by; push[j].x -= dx * by; push[j].y -= dy * by;
        };
        for (let i = 0; i < n; i += 1) for (let j = 0; j < i; j += 1) force(i, j, (far) => (ideal * ideal) / far);
        for (const [i, j] of pairs) force(i, j, (far) => -(far * far) / ideal);
        for (let i = 0; i < n; i += 1) {
          if (fixed.has(names[i])) continue;
          const far = Math.max(1, Math.hypot(push[i].x, push[i].y));
          const by = Math.min(heat, far) / far;
          at[i] = within({ x: at[i].x + push[i].x * by, y: at[i].y + push[i].y * by });
        }
      }
    }
    return new Map(names.map((name, i) => [name, at[i]]));
  }

  const edges = () => details.links.filter((link) => link.ends);

  function show() {
    const nodes = details.nodes.map((node) => node.name);
    const others = edges().flatMap((link) => link.ends).filter((end) => !nodes.includes(end));
    const names = [...new Set([...nodes, ...others])];
    const what = JSON.stringify([watched, names, edges().map((link) => link.name)]);
    if (what !== shown) {
      shown = what;
      chosen = null;
      places = arrange(names, edges().map((link) => link.ends), remembered());
      build(names, new Set(nodes));
    }
    move();
    colour();
  }

  function build(names, nodes) {
    parts = { nodes: new Map(), pipes: new Map() };
    const pipes = edges().map((link) => {
      const title = draw('title');
      const line = draw('path', { class: 'pipe' }, title);
      const rate = draw('text', { class: 'rate' });
      parts.pipes.set(link.name, { line, title, rate });
      return draw('g', {}, line, rate);
    });
    const drawn = names.map((name) => {
      const title = draw('title');
      const body = nodes.has(name) ? draw('circle', { r: RADIUS, class: 'node' }, title)
        : draw('rect', { x: -12, y: -12, width: 24, height: 24, rx: 4, class: 'switch' }, title);
      const ring = draw('path', { class: 'cpu' });
      const label = draw('text', { y: nodes.has(name) ? RADIUS + 14 : 24 }, name);
      const group = draw('g', { 'data-name': name }, body, ring, label);
      group.addEventListener('pointerdown', (press) => drag(name, group, press));
      parts.nodes.set(name, { group, body, ring, title });
      return group;
    });
    $('map').replaceChildren(...pipes, ...drawn);
  }

  function move() {
    for (const [name, part] of parts.nodes) {
      const at = places.get(name);
      part.group.setAttribute('transform', `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`);
    }
    for (const link of edges()) {
      const part = parts.pipes.get(link.name);
      const [a, b] = link.ends.map((end) => places.get(end));
      const far = Math.max(1, Math.hypot(b.x - a.x, b.y - a.y));
      // Each direction keeps to its right, as on a road.
      const [nx, ny] = [(-(b.y - a.y) / far) * 5, ((b.x - a.x) / far) * 5];
      part.line.setAttribute('d', `M${a.x + nx} ${a.y + ny}L${b.x + nx} ${b.y + ny}`);
      part.rate.setAttribute('x', a.x + 0.62 * (b.x - a.x) + 3 * nx);
      part.rate.setAttribute('y', a.y + 0.62 * (b.y - a.y) + 3 * ny);
    }
  }

  const OFF = ['exited', 'stopped', 'killed', 'paused', 'no power'];
  function colour() {
    for (const link of edges()) {
      const part = parts.pipes.get(link.name);
      const used = Math.min(1, Math.max(0, link.use || 0));
      const busy = used > 0 || link.bits_per_s > 0;
      // From cool to warm; width says the same.
      part.line.style.stroke = busy ? `color-mix(in oklch, var(--warm) ${Math.round(100 * used)}%, var(--cool))` : '';
      part.line.style.strokeWidth = String(2 + 6 * used);
      part.rate.textContent = link.use ? percent(used) : '';
      part.title.textContent = `${link.ends.join(' → ')}: ${known(link.use, percent)}`
        + `, ${known(link.bits_per_s, bits)}, ${known(link.lost, (n) => `${n} lost`)}`;
    }
    for (const node of details.nodes) {
      const part = parts.nodes.get(node.name);
      const load = node.cpus === null || !node.of_cpus ? 0 : Math.min(1, node.cpus / node.of_cpus);
      part.ring.setAttribute('d', arc(load));
      part.ring.classList.toggle('full-load', load > 0.95);
      part.body.classList.toggle('off', OFF.includes(node.state));
      part.title.textContent = `${node.name}: ${node.state || 'not started'}, CPUs ${known(node.cpus, (c) => c.toFixed(2))}`;
    }
    for (const [name, part] of parts.nodes) part.body.classList.toggle('chosen', name === chosen);
  }

  function arc(load) {
    if (load <= 0.005) return '';
    const angle = 2 * Math.PI * Math.min(load, 0.9999);
    const at = (turn) => `${(RADIUS * Math.sin(turn)).toFixed(2)} ${(-RADIUS * Math.cos(turn)).toFixed(2)}`;
    return `M${at(0)}A${RADIUS} ${RADIUS} 0 ${load > 0.5 ? 1 : 0} 1 ${at(angle)}`;
  }

  function drag(name, group, press) {
    const map = $('map');
    const scale = () => map.viewBox.baseVal.width / map.getBoundingClientRect().width;
    const from = { ...places.get(name) };
    let moved = false;
    group.setPointerCapture(press.pointerId);
    const go = (now) => {
      const [dx, dy] = [(now.clientX - press.clientX) * scale(), (now.clientY - press.clientY) * scale()];
      moved = moved || Math.hypot(dx, dy) > 3;
      if (moved) { places.set(name, within({ x: from.x + dx, y: from.y + dy })); move(); }
    };
    const stop = () => {
      group.removeEventListener('pointermove', go);
      if (moved) { remember(); return; }
      chosen = name;
      colour();
      choose(name);
    };
    group.addEventListener('pointermove', go);
    group.addEventListener('pointerup', stop, { once: true });
    group.addEventListener('pointercancel', stop, { once: true });
    press.preventDefault();
  }

  function anew() {
    try { localStorage.removeItem(memory()); } catch { /* Not allowed. */ }
    shown = '';
    show();
  }
  return { show, anew, forget: () => { shown = ''; $('map').replaceChildren(); } };
})();
$('again').addEventListener('click', chart.anew);

// ---- Faults by hand.

const OF_NODE = ['pause', 'resume', 'kill', 'stop', 'start'];
const OF_LINK = [['down', '{ up: false }'], ['up', '{ up: true }'], ['lose 10 %', '{ loss: 10% }'], ['lose none', '{ loss: 0 }']];

function targets() {
  const links = [...new Set(details.links.map((link) => link.name.replace(/\/[ab]{2}$/, '')))];
  const names = [...details.nodes.map((node) => `node ${node.name}`), ...links.map((link) => `link ${link}`), 'the run'];
  if (JSON.stringify(names) === $('target').dataset.names) return;
  $('target').dataset.names = JSON.stringify(names);
  $('target').replaceChildren(...names.map((name) => make('option', { value: name }, name)));
  usual();
}
function choose(name) {
  if (details.nodes.some((node) => node.name === name)) { $('target').value = `node ${name}`; usual(); }
}
function usual() {
  const target = $('target').value;
  const name = target.slice(5);
  const words = target === 'the run' ? [['heal', 'do: heal'], ['end', 'do: end']]
    : target.startsWith('node ') ? OF_NODE.map((what) => [what, `node: ${name}, do: ${what}`])
      : OF_LINK.map(([what, set]) => [what, `link: ${name}, set: ${set}`]);
  $('usual').replaceChildren(...words.flatMap(([what, event]) => [
    make('button', { type: 'button', click: () => { $('words').value = event; $('words').focus(); } }, what), ' ',
  ]));
}
$('target').addEventListener('change', usual);
$('fault').addEventListener('submit', async (submitted) => {
  submitted.preventDefault();
  const [run, event] = [watched, $('words').value.trim()];
  if (!event) return;
  const said = await ask(`event?run=${encodeURIComponent(run)}`, event);
  $('became').className = said.ok ? 'good' : 'bad';
  $('became').textContent = said.ok ? `${event}: at ${JSON.parse(said.text).at.toFixed(3)} virtual seconds` : said.text;
});

async function ask(what, text) {
  try {
    const answer = await fetch(what, text === undefined ? {} : { method: 'POST', body: text });
    return { ok: answer.ok, text: await answer.text() };
  } catch {
    return { ok: false, text: 'No answer from the server.' };
  }
}

// ---- Runs and comparisons.

let found = [];
let base = null;
async function list() {
  const said = await ask('runs');
  if (!said.ok) { $('results').textContent = said.text; return; }
  const all = JSON.parse(said.text);
  found = all.runs;
  $('results').textContent = all.trouble || `${all.results}: ${found.length} runs`;
  rows();
}
function rows() {
  const only = $('only').value.trim();
  const date = (s) => new Date(1000 * s).toLocaleString();
  const good = { trustworthy: 'good', suspect: 'bad', failed: 'bad' };
  table('list', [['run', 'name'], [''], ['report'], ['TDF', 'n'], ['virtual', 'n'], ['real', 'n'], ['last changed'], ['']],
    found.filter((run) => run.name.includes(only)).map((run) => [
      run.name || '.',
      run.repetitions ? `${run.repetitions} repetitions` : make('span', { class: good[run.state] || 'quiet' }, run.state),
      run.report ? opens(`report?run=${encodeURIComponent(run.name)}`, 'report') : '',
      known(run.tdf, String), known(run.virtual_s, (s) => `${s.toFixed(1)} s`), known(run.real_s, lasting),
      known(run.changed_s, date),
      make('button', { type: 'button', 'aria-pressed': run.name === base, click: () => pick(run.name) }, 'compare'),
    ]));
}
const opens = (where, text) => make('a', { href: where, target: '_blank', rel: 'noopener noreferrer' }, text);
function pick(name) {
  if (base === null) {
    base = name;
    $('pick').textContent = `${name} is the base: click "compare" at the other, or again here to give it up.`;
  } else if (base === name) {
    base = null;
    $('pick').textContent = 'To compare two, click "compare" at the base and then at the other.';
  } else {
    const where = `compare?base=${encodeURIComponent(base)}&other=${encodeURIComponent(name)}`;
    $('pick').replaceChildren(`${name} compared with ${base}: `, opens(where, 'open'));
    window.open(where, '_blank', 'noopener,noreferrer');
    base = null;
  }
  rows();
}
$('reload').addEventListener('click', list);
$('only').addEventListener('input', rows);

// ---- An experiment, checked as it is typed.

let begun = false;
async function begin() {
  if (begun || may !== 'everything') return;
  begun = true;
  const said = await ask('experiment');
  if (said.ok && !$('text').value) { $('text').value = said.text; typed(); }
  if (!said.ok) $('judged').textContent = said.text;
}
let waits = null;
let checking = false;
let changed = false;
function typed() {
  changed = true;
  clearTimeout(waits);
  waits = setTimeout(check, 400);
}
async function check() {
  // One after the other: what was typed meanwhile is checked next.
  if (checking || !changed) return;
  [checking, changed] = [true, false];
  const text = $('text').value;
  if (text.trim()) {
    const said = await ask('check', text);
    judged(said.ok ? JSON.parse(said.text) : { error: said.text, places: [] }, text.split('\n'));
  } else {
    judged(null, []);
  }
  checking = false;
  if (changed) check();
}
function judged(said, lines) {
  const places = (said && said.places) || [];
  const wrong = said && said.error !== undefined;
  $('judged').className = wrong ? 'bad' : 'good';
  $('judged').textContent = !said ? '' : !wrong ? 'It can be run here.'
    : said.error || (places.length === 1 ? 'One thing is wrong.' : `${places.length} things are wrong.`);
  $('places').replaceChildren(...places.map(({ line, column, what }) => make('li', {},
    make('button', { type: 'button', click: () => go(line, column) }, `line ${line}`), `${what} `,
    make('code', {}, (lines[line - 1] || '').trim()))));
  $('plan').textContent = said && said.plan ? [...said.notes.map((note) => `note: ${note}`), said.plan].join('\n') : '';
}
function go(line, column) {
  const text = $('text');
  const before = text.value.split('\n').slice(0, line - 1);
  const at = before.reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
  text.focus();
  text.setSelectionRange(at, at);
}
$('text').addEventListener('input', typed);

listen();
