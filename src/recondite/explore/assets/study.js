// My study: open, drop or start a run, and watch it grow.
import { $, alarms, ask, delayed, element, given, line, listen, mistake, onShow, post, refresh, remember, state, strip } from './explore.js';

let watched = '';
let stop = null;
let edited = false;
let seen = 0;

const runs = () => {
  $('runs').replaceChildren(...state.runs.map((one) => {
    const button = element('button', `${one.name}${one.running ? ' (running)' : ''}${one.federation ? ' (federation)' : ''}`, { type: 'button', class: 'quiet', 'data-run': one.id });
    if (one.id === watched) button.setAttribute('aria-current', 'true');
    button.addEventListener('click', () => { if (one.federation) window.location.hash = `#federation?run=${one.id}`; else watch(one.id); });
    return element('li', '', {}, button);
  }));
};

const STATES = { starting: 'starting', running: 'running', stopping: 'stopping', stopped: 'stopped', finished: 'finished', failed: 'failed', killed: 'stopped without finishing' };

const show = (found) => {
  $('watched').hidden = false;
  $('unwatched').hidden = true;
  const state_ = found.progress.state || '';
  $('watched-name').textContent = found.name;
  $('watched-path').textContent = found.path;
  $('watched-state').textContent = STATES[state_] || 'stored';
  $('watched-state').className = `tag${['failed', 'killed'].includes(state_) ? ' bad' : ''}`;
  $('watched-progress').max = Math.max(found.expected, found.count, 1);
  $('watched-progress').value = found.count;
  const of = found.expected ? ` of ${found.expected}` : '';
  const now = found.running && found.progress.now ? ` · now ${found.progress.now}` : '';
  $('watched-count').textContent = `${found.count}${of} rows${now}${found.simulation ? ' · simulation: seeded noise protects nobody' : ''}`;
  $('watched-trouble').textContent = state_ === 'failed' ? found.progress.line : '';
  $('stop').hidden = !found.running || state_ === 'stopping';
  $('go-on').hidden = found.running || !found.ours || state_ === 'finished';
  $('watched-report').hidden = !found.report;
  $('watched-report').href = `/report/${found.id}`;
  alarms($('watched-alarms'), found.alarms);
  const lines = found.empty && !found.running ? [found.empty] : found.lines;
  $('watched-lines').replaceChildren(...lines.map((text) => element('p', text)));
  $('ladder').replaceChildren(...found.ladder.map((one) => line([one.label, element('span', one.rung, { class: `state ${one.rung}` }), one.bound, one.epsilon, one.seen, one.accuracy], [1, 4])));
  $('watched-withheld').textContent = found.withheld ? `Images of ${found.withheld} settings are of data not known to be public: start with --show-private to see them.` : found.strips.length ? '' : 'No images yet.';
  $('strips').replaceChildren(...found.strips.map((one) => strip(one.label, one)));
  $('rows').replaceChildren(...found.rows.map((row) => line([row.label, row.attack, row.status, row.accuracy, row.epsilon, row.seen], [1, 2, 5])));
  if (found.running !== Boolean(state.runs.find((one) => one.id === found.id)?.running) || seen !== state.runs.length) {
    seen = state.runs.length;
    refresh().catch(() => {});
  }
};

// Until the first answer there is nothing to stop, to sort or to read.
const waiting = (text) => { $('watched').hidden = true; $('unwatched').hidden = false; $('unwatched').textContent = text; };

const watch = (id) => {
  const name = state.runs.find((one) => one.id === id)?.name;
  if (!id) waiting('Open a run on the left, or start one.');
  else if (id !== watched) waiting(`Opening ${name ?? 'the run'}…`);
  watched = id;
  stop?.();
  runs();
  if (!id) return;
  remember('study', { run: id });
  const view = new URLSearchParams({ threat: $('view-threat').value, participation: $('view-participation').value });
  stop = listen(`/watch/${id}?${view}`, {
    snapshot: show,
    trouble: (found) => { $('watched-trouble').textContent = found.line; },
    refused: (found) => { stop?.(); waiting(found.line); },
  });
};

const opened = async (found) => {
  await refresh();
  const one = found.runs[0];
  if (one.federation) window.location.hash = `#federation?run=${one.id}`; else watch(one.id);
};

$('open').addEventListener('submit', async (event) => {
  event.preventDefault();
  mistake($('open'));
  try { await opened(await post('/open', { path: $('path').value })); } catch (error) { mistake($('open'), 'path', error.line); }
});

// Files of a run: its records last, which opens it.
const WANTED = /(^|\/)(records\.jsonl|study\.json|gallery\/[A-Za-z0-9._-]+\.npz)$/;
const send = async (files, title) => {
  const box = $('drop').parentElement;
  mistake(box);
  try {
    let chosen = files.map(({ file, path }) => ({ file, name: (path.match(WANTED) || [])[2] })).filter((one) => one.name);
    if (files.length === 1) chosen = [{ file: files[0].file, name: 'records.jsonl' }];
    chosen.sort((a, b) => (a.name === 'records.jsonl') - (b.name === 'records.jsonl'));
    if (!chosen.some((one) => one.name === 'records.jsonl')) throw { line: 'there is no records.jsonl in it: drop the folder of a run' };
    const { name } = await post('/upload', { title });
    let last;
    for (const one of chosen) last = await ask(`/upload/${name}/${one.name}`, { method: 'PUT', body: one.file });
    await opened(last);
  } catch (error) { mistake(box, 'drop', error.line || String(error)); }
};
for (const id of ['drop-file', 'drop-folder']) {
  $(id).addEventListener('change', async (event) => {
    const files = [...event.target.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
    if (files.length) await send(files, files[0].path.split('/')[0]);
    event.target.value = '';
  });
}
const walk = async (entry, path = '') => {
  if (entry.isFile) return [{ file: await new Promise((done, fail) => { entry.file(done, fail); }), path: path + entry.name }];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, fail) => { reader.readEntries(done, fail); });
    if (!some.length) return found;
    for (const one of some) found.push(...await walk(one, `${path}${entry.name}/`));
  }
};
for (const kind of ['dragenter', 'dragover']) window.addEventListener(kind, (event) => { event.preventDefault(); $('drop').classList.add('over'); });
for (const kind of ['dragleave', 'drop']) window.addEventListener(kind, () => $('drop').classList.remove('over'));
window.addEventListener('drop', async (event) => {
  event.preventDefault();
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const files = entries.length ? (await Promise.all(entries.map((entry) => walk(entry)))).flat()
    : [...event.dataTransfer.files].map((file) => ({ file, path: file.name }));
  if (files.length) { window.location.hash = '#study'; await send(files, entries[0]?.name || files[0].path); }
});

// The form writes the study; whoever edits the text keeps their words.
const form = $('new');
const choices = () => {
  const chosen = {};
  for (const box of $('new-defences').querySelectorAll('input[type=checkbox]:checked')) {
    chosen[box.value] = $(`noise-${box.value}`)?.value ?? '';
  }
  const attacks = [...$('new-attacks').querySelectorAll('input:checked')].map((box) => box.value);
  const { name, data, model, epochs, batch_size, records, seeds } = Object.fromEntries(new FormData(form));
  return { name, data, model, epochs, batch_size, records, seeds, defences: chosen, attacks };
};
const draft = async () => {
  if (edited) return;
  try {
    const found = await post('/draft', choices());
    if (edited) return;  // while the server wrote
    mistake(form);
    $('yaml').value = found.yaml;
  } catch (error) { mistake(form, error.field || 'yaml', error.line); }
};
const draftSoon = delayed(draft, 200);
const fill = () => {
  const offered = state.study;
  $('new-data').value = offered.data; $('new-model').value = offered.model;
  $('data-names').replaceChildren(...offered.data_names.map((name) => element('option', '', { value: name })));
  $('new-epochs').value = offered.training.epochs; $('new-batch').value = offered.training.batch_size; $('new-seeds').value = offered.seeds;
  $('new-defences').replaceChildren(...offered.defences.map((one) => {
    const box = element('input', '', { type: 'checkbox', value: one.name, id: `defend-${one.name}` });
    box.checked = one.chosen;
    const label = element('label', '', {}, box, one.title);
    const noise = one.parameter ? element('input', '', { id: `noise-${one.name}`, value: one.values, 'aria-label': `${one.parameter.replaceAll('_', ' ')} of ${one.title}`, placeholder: one.symbol }) : '';
    return element('div', '', { class: 'one-defence' }, label, noise);
  }));
  $('new-attacks').replaceChildren(...offered.attacks.map((name) => {
    const box = element('input', '', { type: 'checkbox', value: name, id: `attack-${name}` });
    box.checked = true;
    return element('label', '', { class: 'one-attack' }, box, name);
  }));
};
form.addEventListener('input', (event) => {
  if (event.target === $('yaml')) { edited = true; return; }
  edited = false;
  draftSoon();
});
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  mistake(form);
  $('start').disabled = true;
  $('start-said').textContent = 'checking the study…';
  try {
    const found = await post('/study', { yaml: $('yaml').value });
    $('start-said').textContent = 'started';
    await opened(found);
  } catch (error) {
    $('start-said').textContent = '';
    mistake(form, error.field || 'yaml', error.line);
  } finally { $('start').disabled = false; }
});
const act = (what) => async () => {
  try { await post(`/study/${watched}/${what}`, {}); } catch (error) { $('watched-trouble').textContent = error.line; }
};
$('stop').addEventListener('click', act('stop'));
$('go-on').addEventListener('click', act('go-on'));
for (const id of ['view-threat', 'view-participation']) $(id).addEventListener('change', () => watch(watched));

fill();
runs();
// On a phone the form would stand between a run and what is seen of it.
$('new-study').open = window.matchMedia('(min-width: 58.01rem)').matches || !state.runs.length;
document.addEventListener('runs', runs);
onShow('study', () => {
  draft();
  const wanted = given().get('run') || watched || state.runs.find((one) => !one.federation)?.id || '';
  watch(wanted);
}, () => { stop?.(); stop = null; });
