// Calibrate and look: a question goes out as it is typed; a coarse answer comes, then the tight one.
import { $, delayed, element, given, listen, mistake, onShow, remember, state, strip } from './explore.js';

const form = $('setting');
const SHARES = { epsilon: '8', identification: '0.3', rero: '0.3', accuracy: '0.8' };
let stop = null;
let copies = null;
let language = 'python';

const defence = () => state.defences.find((one) => one.name === $('defence').value);

const values = () => {
  const found = Object.fromEntries(new FormData(form));
  for (const name of ['dim', 'blocks']) if (!defence().fields.includes(name)) delete found[name];
  return { ...found, run: $('run').value, data: $('copy-data').value, model: $('copy-model').value };
};

const fit = () => {
  const one = defence();
  const solving = $('lock').value !== '' && $('solve').value === 'noise';
  $('value-label').textContent = `${one.parameter.replaceAll('_', ' ')} ${one.symbol === one.parameter ? '' : `(${one.symbol})`}: ${one.larger ? 'smaller is more noise' : 'larger is more noise'}`;
  form.querySelector('[data-field=dim]').hidden = !one.fields.includes('dim');
  form.querySelector('[data-field=blocks]').hidden = !one.fields.includes('blocks');
  form.querySelector('[data-field=target]').hidden = $('lock').value === '';
  form.querySelector('[data-field=solve]').hidden = $('lock').value === '';
  $('value').readOnly = solving;
  $('epochs').readOnly = $('lock').value !== '' && $('solve').value === 'epochs';
};

const tile = (name, value, note) => element('div', '', {}, element('dt', name), element('dd', value), element('dd', note, { class: 'note' }));

const show = (answer) => {
  const text = answer.text;
  const tight = answer.stage === 'tight';
  $('stage').className = `tag ${answer.stage}`;
  $('stage').textContent = tight ? 'tight bound' : 'holds, not yet tight: computing…';
  $('sentence').textContent = text.sentence;
  $('figures').replaceChildren(
    tile(answer.parameter.replaceAll('_', ' '), text.value, `${answer.epochs} epochs, ${answer.steps} steps`),
    tile('ε of the run', `≤ ${text.epsilon}`, `at this δ; ${answer.relation}; batches secret`),
    tile('picked out', `≤ ${text.identification}`, `by this intruder; a guess: ${text.guess}`),
    tile('rebuilt (ReRo)', `≤ ${text.rero}`, `batches secret; a guess: ${text.prior}`),
  );
  $('notes').textContent = [answer.warning, ...Object.values(answer.reasons), `${tight ? 'Tight' : 'Coarse'} answer in ${answer.seconds} s.`].filter(Boolean).join(' ');
  // What was solved for stands in its own field, ready to be changed by hand.
  if (tight && $('lock').value !== '') {
    if ($('solve').value === 'noise') $('value').value = text.value; else $('epochs').value = answer.epochs;
  }
  if (tight) { copies = answer.copies; showCopy(); }
};

const showStored = (found) => {
  if (!found.found) { $('stored').replaceChildren(element('p', found.line, { class: 'note' })); return; }
  const differs = found.differs.length ? `It differs from your setting: ${found.differs.join('; ')}.` : 'It is your setting.';
  const said = element('p', `Measured in run ${found.run} with ${found.label}: accuracy ${found.accuracy}. ${differs}`, { class: 'note', id: 'stored-label' });
  const images = found.images;
  if (!images) { $('stored').replaceChildren(said, element('p', 'No images of an attack are stored for it.', { class: 'note' })); return; }
  if (images.withheld) { $('stored').replaceChildren(said, element('p', 'Its images are of data not known to be public: start with --show-private to see them.', { class: 'note' })); return; }
  $('stored').replaceChildren(said, strip(`${found.label}, stored`, images, `run ${found.run}`));
};

const showCopy = () => {
  $('copied').textContent = copies ? copies[language] : '…';
  document.querySelector('.yaml-of').hidden = language !== 'yaml';
  for (const button of document.querySelectorAll('[data-copy]')) button.setAttribute('aria-pressed', String(button.dataset.copy === language));
};

const askNow = () => {
  stop?.();
  const found = values();
  remember('calibrate', found);
  $('stage').className = 'tag'; $('stage').textContent = 'asking…';
  copies = null;
  stop = listen(`/answer?${new URLSearchParams(found)}`, {
    coarse: (answer) => { mistake(form); show(answer); },
    pending: (note) => { $('stage').textContent = 'computing…'; $('notes').textContent = note.line; },
    tight: (answer) => { mistake(form); show(answer); },
    stored: showStored,
    refused: ({ field, line }) => {
      mistake(form, field, line);
      $('stage').className = 'tag bad'; $('stage').textContent = 'not answered';
      $('sentence').textContent = 'One field cannot be answered; the line is beside it.';
      $('figures').replaceChildren(); $('notes').textContent = '';
      copies = null; showCopy();
    },
    end: () => { stop?.(); stop = null; },
  });
};
const askSoon = delayed(askNow, 250);

for (const one of state.defences) $('defence').append(element('option', one.title, { value: one.name }));
const runs = () => {
  const chosen = $('run').value;
  $('run').replaceChildren(element('option', 'every open run', { value: '' }), ...state.runs.map((one) => element('option', one.name, { value: one.id })));
  $('run').value = state.runs.some((one) => one.id === chosen) ? chosen : '';
};
runs();
document.addEventListener('runs', runs);

for (const [name, value] of given()) {
  const input = form.elements[name] || { run: $('run'), data: $('copy-data'), model: $('copy-model') }[name];
  if (input) input.value = value;
}
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('input', (event) => {
  if (event.target === $('lock') && $('lock').value) $('target').value = SHARES[$('lock').value];
  if (event.target === $('defence')) $('value').value = String(defence().start);
  fit();
  askSoon();
});
for (const id of ['run', 'copy-data', 'copy-model']) $(id).addEventListener('input', askSoon);
for (const button of document.querySelectorAll('[data-copy]')) button.addEventListener('click', () => { language = button.dataset.copy; showCopy(); });
$('copy').addEventListener('click', async () => {
  if (!copies) { $('copy-said').textContent = 'wait for the tight bound'; return; }
  try {
    await navigator.clipboard.writeText(copies[language]);
    $('copy-said').textContent = 'copied';
  } catch {
    window.getSelection().selectAllChildren($('copied'));
    $('copy-said').textContent = 'selected: press Ctrl-C';
  }
});
fit();
onShow('calibrate', askNow, () => { stop?.(); stop = null; });
