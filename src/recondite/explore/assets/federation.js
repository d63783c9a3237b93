// Federation: follows one from what its server and its clients write.
import { $, alarms, delayed, element, given, line, listen, mistake, onShow, remember, state, strip } from './explore.js';

let stop = null;
const part = $('federation');

const offered = () => {
  const chosen = $('which').value || given().get('run');
  const found = state.runs.filter((one) => one.federation);
  $('which').replaceChildren(...(found.length ? found.map((one) => element('option', one.name, { value: one.id })) : [element('option', 'none is open', { value: '' })]));
  if (found.some((one) => one.id === chosen)) $('which').value = chosen;
};

const gauge = (share) => {
  const bar = element('i');
  bar.style.width = `${100 * share}%`;
  return element('span', '', { class: `left${share < 0.2 ? ' low' : ''}`, role: 'img', 'aria-label': `${Math.round(100 * share)}% left` }, bar);
};

const most = (text) => (text === '–' ? text : `≤ ${text}`);

const column = (name, ...more) => element('th', name, { scope: 'col' }, ...more);

const table = (found) => {
  const rounds = Array.from({ length: Math.max(found.last, 1) }, (_, index) => index + 1).slice(-20);
  const accuracy = Object.fromEntries(found.rounds.map((row) => [row.round, row.accuracy]));
  const head = element('tr', '', {}, column('Client'), ...rounds.map((number) => column(`round ${number}`, element('small', accuracy[number] || ''))),
    column('ε spent'), column('nats'), column(found.budget === null ? 'ε left' : `ε left of ${found.budget}`));
  const rows = found.clients.map((one) => {
    const cells = rounds.map((number) => (one.released.includes(number) ? element('span', '●', { class: 'released', title: `released in round ${number}` }) : '·'));
    const left = element('span', one.left, {});
    const made = line([one.name, ...cells, most(one.epsilon), most(one.information), left]);
    if (one.share !== null) made.lastChild.append(gauge(one.share));
    return made;
  });
  $('clients').replaceChildren(element('caption', found.counted ? '● an update left the client, or may have. What was spent is by each client’s own ledger.'
    : '● the auditor attacked this client’s update. Without ledgers it is not known here who else released.'), element('thead', '', {}, head), element('tbody', '', {}, ...rows));
};

const show = (found) => {
  mistake(part);
  $('followed').hidden = false;
  $('federation-trouble').textContent = '';
  $('round').textContent = `round ${found.last}${found.total ? ` of ${found.total}` : ''}${found.finished ? ', finished' : ''}`;
  alarms($('federation-alarms'), found.alarms);
  table(found);
  const who = found.clients[0];
  $('federation-notes').textContent = [
    found.simulation ? 'A simulation: noise that follows from a seed protects nobody.' : '',
    who?.protects ? `ε at δ = ${found.delta}. Protects ${who.protects}, against ${who.against}.` : 'No client’s ledger lies on this machine: budgets are not known here.',
    ...new Set(found.clients.flatMap((one) => Object.values(one.reasons))),
    found.left_out ? `${found.left_out} clients more are not shown.` : '',
  ].filter(Boolean).join(' ');
  const best = found.best;
  const said = best && `Round ${best.round}, client ${best.client}, ${best.label}: ${best.estimate ? 'an estimate, the originals are not known' : `SSIM ${best.ssim}`}.`;
  const parts = [element('p', best ? said : 'No update was attacked yet.', { class: 'note' })];
  if (best?.images?.withheld) parts.push(element('p', 'Its images are of data not known to be public: start with --show-private to see them.', { class: 'note' }));
  else if (best?.images?.pictures.length) parts.push(strip(best.label, best.images, `round ${best.round}, client ${best.client}`));
  $('best').replaceChildren(...parts);
  $('attacked').replaceChildren(...found.attacked.map((row) => line([String(row.round), row.client, row.label, row.ssim, row.estimate ? 'estimate' : 'scored'], [1, 2, 4])));
};

const follow = () => {
  stop?.();
  stop = null;
  const id = $('which').value;
  if (!id) { $('followed').hidden = true; $('round').textContent = 'none'; return; }
  remember('federation', { run: id, budget: $('budget').value });
  stop = listen(`/federation/${id}?${new URLSearchParams({ budget: $('budget').value })}`, {
    snapshot: show,
    trouble: (found) => { $('federation-trouble').textContent = found.line; },
    refused: ({ field, line: text }) => { stop?.(); stop = null; if (field === 'budget') mistake(part, field, text); else $('federation-trouble').textContent = text; },
  });
};
offered();
document.addEventListener('runs', offered);
$('which').addEventListener('change', follow);
$('budget').addEventListener('input', delayed(follow, 300));
onShow('federation', () => {
  const wanted = given();
  if (wanted.get('run')) $('which').value = wanted.get('run');
  if (wanted.get('budget') !== null) $('budget').value = wanted.get('budget');
  offered();
  follow();
}, () => { stop?.(); stop = null; });
