// Shared by all parts of the page: its data, small helpers, the theme, the CSV.
const $ = (id) => document.getElementById(id);
const DATA = JSON.parse($('data').textContent);
const POINTS = DATA.points;
const listeners = { choice: [], voice: [] };
const tell = (what) => listeners[what].forEach((listen) => listen());

/** The number of a point on an axis: Infinity for an infinite bound, null where not defined. */
const valueOf = (point, key) => {
  const found = point.v[key];
  if (!found) return null;
  return found[0] === 'inf' ? Infinity : found[0];
};

const percent = (value) => `${(100 * value).toFixed(1)}%`;

/** So many decimals: of an upper bound (1) rounded up, of a lower one (-1) down, else (0) to the nearest. */
const fixed = (value, decimals, side = 0) => {
  if (!side) return value.toFixed(decimals);
  const parts = value * 10 ** decimals - side * Math.abs(value) * 10 ** (decimals - 12);
  return ((side > 0 ? Math.ceil(parts) : Math.floor(parts)) / 10 ** decimals).toFixed(decimals);
};

const figure = (value, digits = 3, side = 0) => {
  if (value === null || value === undefined) return '–';
  if (!Number.isFinite(value)) return '∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  const power = Math.floor(Math.log10(size));
  if (size >= 1e7 || size < 1e-3) {
    return Number(`${fixed(value / 10 ** power, digits - 1, side)}e${power}`).toExponential(digits - 1).replace('-', '−');
  }
  const decimals = Math.max(0, digits - 1 - power);
  return fixed(value, decimals, side).replace('-', '−').replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ',');
};

/** An element with text; text is never read as HTML. */
const element = (tag, text = '', attributes = {}) => {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

/** The name of a defence, with its explanation on hover and focus. */
const meant = (name, means) => element('button', name, { type: 'button', class: 'term means', 'aria-describedby': means });

/** Text from gzip in base64. */
const unpack = async (id) => {
  const text = atob($(id).textContent);
  const bytes = new Uint8Array(text.length);
  // Uint8Array.from with a function is ten times slower.
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
};

const stored = (action) => {
  try { return action(window.localStorage); } catch { return null; }
};

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const setTheme = (theme) => { if (theme) document.documentElement.dataset.theme = theme; };
setTheme(stored((store) => store.getItem('recondite-theme')));
$('theme').addEventListener('click', () => {
  const now = document.documentElement.dataset.theme || (dark.matches ? 'dark' : 'light');
  const next = now === 'dark' ? 'light' : 'dark';
  stored((store) => store.setItem('recondite-theme', next));
  setTheme(next);
});

/** Which of both voices the page speaks with. */
const technical = () => $('voice-technical').checked;
document.querySelectorAll('[name=voice]').forEach((radio) => radio.addEventListener('change', () => tell('voice')));

$('csv').addEventListener('click', async () => {
  $('csv-state').textContent = 'Unpacking…';
  try {
    const text = await unpack('rows');
    const link = element('a', '', { download: 'recondite.csv' });
    // The mark tells spreadsheets that the text is UTF-8.
    link.href = URL.createObjectURL(new Blob(['\ufeff', text], { type: 'text/csv' }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    $('csv-state').textContent = `${text.split('\r\n').length - 2} rows`;
  } catch (error) {
    $('csv-state').textContent = 'This browser cannot unpack it; the rows are in records.jsonl.';
  }
});
