// What every part of the explorer uses. Text is never read as HTML.
export const $ = (id) => document.getElementById(id);

export const element = (tag, text = '', attributes = {}, ...children) => {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

export const delayed = (action, wait) => {
  let timer;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => action(...given), wait); };
};

/** Asks the server; what it refuses is thrown as {field, line}. */
export const ask = async (address, options = {}) => {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw { field: '', line: 'the server does not answer' };
  }
  if (answer.status === 403) throw { field: '', line: (await answer.text()).trim() };
  const body = await answer.json();
  if (!answer.ok) throw body;
  return body;
};

export const post = (address, body) => ask(address, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });

/** Shows one line beside the field that it is about; what was typed stays. Others are cleared. */
export const mistake = (form, field = '', line = '') => {
  for (const box of form.querySelectorAll('[data-field]')) {
    const here = box.dataset.field === field;
    const place = box.querySelector('.mistake');
    if (place) place.textContent = here ? line : '';
    const input = box.querySelector('input, select, textarea');
    if (input && box.tagName !== 'FIELDSET') input.setAttribute('aria-invalid', String(here));
  }
};

/** Events of a stream; it is taken up again when it breaks, until stopped. */
export const listen = (address, handlers) => {
  let source; let timer; let over = false;
  const begin = () => {
    source = new EventSource(address);
    for (const [name, handler] of Object.entries(handlers)) {
      if (name !== 'broken') source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    }
    source.addEventListener('error', () => {
      if (over) return;
      handlers.broken?.();
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(begin, 1500);
    });
  };
  begin();
  return () => { over = true; clearTimeout(timer); source.close(); };
};

// A sign of life comes every second. Nothing on the page pretends to be fresh without it.
let heard = Date.now();
let trouble = '';
const banner = () => {
  const silent = Math.round((Date.now() - heard) / 1000);
  const line = trouble || (silent >= 4 ? `The server is slow: nothing heard for ${silent} s. What you see may be old.` : '');
  $('banner').hidden = !line;
  if ($('banner').textContent !== line) $('banner').textContent = line;
};
listen('/live', {
  beat: () => { heard = Date.now(); trouble = ''; banner(); },
  broken: async () => {
    try {
      const answer = await fetch('/assets/explore.css');
      trouble = answer.status === 403 ? `Another server answers here: ${(await answer.text()).trim()}` : '';
    } catch {
      trouble = 'The server is not answering. Studies that were started go on. Start it again with recondite explore; this page keeps trying.';
    }
    banner();
  },
});
setInterval(banner, 500);

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const kept = (action) => { try { return action(window.localStorage); } catch { return null; } };
const theme = kept((store) => store.getItem('recondite-theme'));
if (theme) document.documentElement.dataset.theme = theme;
$('theme').addEventListener('click', () => {
  const now = document.documentElement.dataset.theme || (dark.matches ? 'dark' : 'light');
  const next = now === 'dark' ? 'light' : 'dark';
  kept((store) => store.setItem('recondite-theme', next));
  document.documentElement.dataset.theme = next;
});

// One part at a time: the address says which, and with what; only the one shown listens.
const PARTS = ['calibrate', 'study', 'federation'];
export const part = () => {
  const name = window.location.hash.slice(1).split('?')[0];
  return PARTS.includes(name) ? name : PARTS[0];
};
export const given = () => new URLSearchParams(window.location.hash.split('?')[1] || '');
export const remember = (name, values) => {
  if (part() === name) window.history.replaceState(null, '', `#${name}?${new URLSearchParams(values)}`);
};
const shown = new Map();
let current = '';
const turn = () => {
  const name = part();
  for (const one of PARTS) $(one).hidden = one !== name;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
  }
  if (current && current !== name) shown.get(current)?.leave?.();
  if (current !== name) window.scrollTo(0, 0);  // the address names a part, not a place in it
  current = name;
  shown.get(name)?.enter?.();
};
window.addEventListener('hashchange', turn);
// The address belongs to the parts: skipping to the content must not leave one.
document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); $('main').focus(); });
export const onShow = (name, enter, leave) => {
  shown.set(name, { enter, leave });
  if (part() === name) turn();
};

export const state = await ask('/state');
$('version').textContent = `Recondite ${state.version}`;
export const refresh = async () => {
  Object.assign(state, await ask('/state'));
  document.dispatchEvent(new Event('runs'));
};

/** One original or reconstruction: an image, or words where records are none. */
const content = (picture, found, what) => (found.media.startsWith('image/')
  ? element('img', '', { src: picture, alt: what, width: 64, height: 64 })
  : element('p', picture, { title: what }));

/** Originals above reconstructions, with whose they are. */
export const strip = (label, found, more = '') => {
  const caption = element('figcaption', '', {}, element('strong', label), element('span', [found.attack, found.better, more].filter(Boolean).join(' · '), { class: 'small' }));
  const pairs = element('div', '', { class: found.media.startsWith('image/') ? 'pairs' : 'pairs words' });
  found.pictures.forEach((picture, index) => pairs.append(element('div', '', { class: 'pair' },
    content(picture.original, found, `original ${index + 1}`),
    content(picture.rebuilt, found, `reconstruction ${index + 1}`),
    element('span', picture.score, { class: 'score' }))));
  return element('figure', '', { class: 'strip' }, caption, pairs);
};

export const alarms = (place, lines) => {
  const same = place.dataset.lines === JSON.stringify(lines);
  if (same) return;
  place.dataset.lines = JSON.stringify(lines);
  place.replaceChildren(...(lines.length ? [element('div', '', { class: 'alarm small-alarm', role: 'alert' },
    element('h2', '⚠ A claim is contradicted, or a limit was passed'),
    element('ul', '', {}, ...lines.map((line) => element('li', line))))] : []));
};

/** A row of a table: the first cell is its head, numbers keep to the right. */
export const line = (cells, texts = []) => element('tr', '', {}, ...cells.map((cell, index) => {
  const made = element(index ? 'td' : 'th', typeof cell === 'string' ? cell : '', index ? {} : { scope: 'row' });
  if (texts.includes(index)) made.className = 'text';
  if (typeof cell !== 'string') made.append(cell);
  return made;
}));
