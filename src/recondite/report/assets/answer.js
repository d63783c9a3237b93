// The answer: walks the ranked lists that recommend.py made. Nothing is ranked or judged here.
const TENTHS = { epsilon: 1, rero: 10, identification: 10 }; // chances are asked for in ten

const readLimits = () => {
  const limits = {};
  for (const [name, parts] of Object.entries(TENTHS)) {
    const value = $(name).value.trim();
    if (value !== '' && Number.isFinite(Number(value))) limits[name] = Number(value) / parts;
  }
  // Without any proof asked for, that of the page's budget is.
  if (!('epsilon' in limits) && !('rero' in limits)) limits.rero = DATA.budget;
  limits.accuracy = Number($('accuracy').value);
  return limits;
};

const keeps = (one, limits) => Object.entries(limits).every(([name, limit]) => one[name] !== null
  && (name === 'accuracy' ? one[name] >= limit : one[name] <= limit));

const choose = (ranked, limits, run) => ranked.find((one) => (run === null || one.run === run) && keeps(one, limits));

const showTiles = (tiles) => $('tiles').replaceChildren(...tiles.map((tile) => {
  const box = element('div');
  box.append(element('dt', tile.name), element('dd', tile.value), element('dd', tile.note, { class: 'note' }));
  return box;
}));

/** The four tiles of the person whom the chosen defence protects least. */
const showPerson = (chosen) => {
  const all = [...document.querySelectorAll('.person')];
  const mine = all.find((part) => part.dataset.point === String(chosen ? chosen.id : 'none'));
  all.forEach((part) => { part.hidden = part !== mine; });
};

/** A line in both voices; the style sheet shows one of them. */
const showEyebrow = (plain, full) => $('eyebrow').replaceChildren(element('span', plain, { class: 'plain' }), element('span', full, { class: 'technical' }));

const NOTHING = { cost: '–', chance: '–', tests: '', proven: DATA.none[2], uncovered: 'Everything.' };
const state = { proven: new Set(), chosen: null };

const showAnswer = () => {
  const limits = readLimits();
  const view = `${$('threat').value} ${$('participation').value}`;
  const scope = $('scope') ? $('scope').value : '';
  const run = scope === '' ? null : Number(scope);
  const { ranked, said, nothing, rero } = DATA.answers[view];
  const { accuracy, ...proof } = limits;
  $('accuracy-out').textContent = percent(accuracy);
  const met = choose(ranked, limits, run);
  const chosen = met ?? choose(ranked, proof, run);
  const about = chosen ? said[chosen.id] : null;
  if (chosen) {
    const lost = (100 * (accuracy - chosen.accuracy)).toFixed(1);
    // Where an accuracy comes from that nobody asked for.
    const [usual, usually] = $('accuracy').value === DEFAULTS.accuracy ? DATA.usual : ['', ''];
    showEyebrow(...(met
      ? [`Recommended, if the model must be right at least ${percent(accuracy)} of the time${usual}`, `For at least ${percent(accuracy)} test accuracy${usually}`]
      : [`No proven defence keeps the model right ${percent(accuracy)} of the time${usual}; this is nearest`, `Nothing tried protects at ${percent(accuracy)} test accuracy${usually}`]));
    $('verdict').replaceChildren(met ? 'Use ' : `Give up ${lost} points and you get `, element('strong', about.label), `: ${about.use}`);
  } else {
    showEyebrow('No recommendation', 'No recommendation');
    $('verdict').textContent = DATA.none[1];
  }
  if (about) {
    const at = about.plain.sentence.lastIndexOf(about.name);
    const point = POINTS.find((one) => one.id === chosen.id);
    $('sentence').replaceChildren(about.plain.sentence.slice(0, at), meant(about.name, DATA.series[point.series].means), about.plain.sentence.slice(at + about.name.length));
  } else $('sentence').textContent = DATA.none[0];
  for (const name of Object.keys(NOTHING)) $(`fact-${name}`).textContent = (about ? about.plain : NOTHING)[name];
  $('promise').textContent = about ? about.promise : nothing;
  $('risks').replaceChildren(...(about ? about.risks : []).map((line) => element('li', line)));
  showTiles(about ? about.tiles : []);
  showPerson(chosen);
  document.querySelectorAll('[data-view]').forEach((part) => { part.hidden = part.dataset.view !== view; });
  const budget = limits.rero ?? DATA.budget;
  showLadder(view, budget, chosen);
  state.proven = new Set(Object.keys(rero).filter((id) => rero[id] <= budget).map(Number));
  state.chosen = chosen ? POINTS.find((point) => point.id === chosen.id) : null;
  tell('choice');
};

$('budget').addEventListener('submit', (event) => event.preventDefault());
$('budget').addEventListener('input', showAnswer);
$('budget').addEventListener('change', showAnswer);
