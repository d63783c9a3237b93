// The answer: the same front and choice as recommend.py, for the budget the reader picks.
const eligible = (points, budget) => points.filter((point) =>
  (budget.run === null || point.run === budget.run)
  && (point.bounded || budget.allowUnbounded)
  && !point.violated
  && point.v.accuracy && point.v[budget.judge]);

const frontOf = (points, judge) => {
  const size = (point) => valueOf(point, 'epsilon') ?? Infinity;
  // Infinity - Infinity is no order: equal ones must compare as 0.
  const step = (a, b) => (a === b ? 0 : a - b);
  const order = (a, b) => step(valueOf(b, 'accuracy'), valueOf(a, 'accuracy'))
    || step(valueOf(a, judge), valueOf(b, judge)) || step(size(a), size(b)) || a.id - b.id;
  let lowest = Infinity;
  return [...points].sort(order).filter((point) => {
    const better = valueOf(point, judge) < lowest;
    if (better) lowest = valueOf(point, judge);
    return better;
  });
};

const recommend = (points, budget) => {
  const front = frontOf(eligible(points, budget), budget.judge);
  if (budget.kind === 'accuracy') {
    return front.filter((p) => valueOf(p, 'accuracy') >= budget.limit).at(-1) ?? null;
  }
  return front.find((p) => valueOf(p, budget.judge) <= budget.limit) ?? null;
};

const readBudget = () => {
  const kind = document.querySelector('input[name=kind]:checked').value;
  const scope = $('scope') ? $('scope').value : '';
  return {
    kind,
    limit: Number($(kind).value),
    judge: $('judge').value,
    run: scope === '' ? null : Number(scope),
    allowUnbounded: $('unbounded').checked,
  };
};

const showTiles = (tiles) => $('tiles').replaceChildren(...tiles.map((tile) => {
  const box = element('div');
  box.append(element('dt', tile.name), element('dd', tile.value), element('dd', tile.note, { class: 'note' }));
  return box;
}));

const showPictures = (chosen) => {
  const source = chosen && document.querySelector(`.strip[data-point="${chosen.id}"] .pairs`);
  if (!source) { $('seen').replaceChildren(); return; }
  const copy = source.cloneNode(true);
  [...copy.children].slice(6).forEach((child) => child.remove());
  $('seen').replaceChildren(element('p', 'What the attacker rebuilt (originals above)', { class: 'small' }), copy);
};

const showFront = (front, budget, chosen) => {
  if (!$('front')) return;
  $('front-count').textContent = front.length;
  $('front').tBodies[0].replaceChildren(...front.map((point) => {
    const row = element('tr');
    const name = element('th', point.label, { scope: 'row' });
    if (point === chosen) { row.className = 'chosen'; name.append(element('span', ' ← recommended')); }
    row.append(name, element('td', percent(valueOf(point, 'accuracy'))),
      element('td', figure(valueOf(point, budget.judge))), element('td', point.epsilon));
    return row;
  }));
};

const state = { front: new Set(), chosen: null };

const showAnswer = () => {
  const budget = readBudget();
  $('accuracy-out').textContent = percent(Number($('accuracy').value));
  $('quality-out').textContent = Number($('quality').value).toFixed(2);
  const limit = budget.kind === 'accuracy' ? `at least ${percent(budget.limit)} test accuracy`
    : `at most ${budget.limit.toFixed(2)} by ${DATA.axes[budget.judge].label}`;
  const chosen = recommend(POINTS, budget);
  const front = frontOf(eligible(POINTS, budget), budget.judge);
  if (chosen) {
    const said = DATA.said[chosen.id];
    $('eyebrow').textContent = `For ${limit}`;
    const [before, after] = said.lead[budget.kind];
    $('verdict').replaceChildren(before, element('strong', said.label), after + said.use);
    $('promise').textContent = said.promise;
    showTiles(said.tiles);
  } else {
    const near = budget.kind === 'accuracy' ? front[0] : front.at(-1);
    const bound = budget.allowUnbounded ? '' : ' with a finite bound';
    $('eyebrow').textContent = 'No recommendation';
    $('verdict').textContent = near ? `No defence here${bound} reaches ${limit}.` : DATA.none;
    $('promise').textContent = near ? `The closest is ${near.label}: ${percent(valueOf(near, 'accuracy'))} test accuracy, ${DATA.axes[budget.judge].label} ${valueOf(near, budget.judge).toFixed(2)}.` : '';
    showTiles([]);
  }
  showPictures(chosen);
  showFront(front, budget, chosen);
  state.front = new Set(front.map((point) => point.id));
  state.chosen = chosen;
  tell('choice');
};

if ($('budget')) {
  const choose = (kind) => { document.querySelector(`input[name=kind][value=${kind}]`).checked = true; };
  $('accuracy').addEventListener('input', () => choose('accuracy'));
  $('quality').addEventListener('input', () => choose('quality'));
  $('judge').addEventListener('change', () => {
    const [low, high] = DATA.qualityRange[$('judge').value];
    Object.assign($('quality'), { min: low, max: high });
    $('quality').value = DATA.qualityLimit[$('judge').value];
  });
  $('budget').addEventListener('submit', (event) => event.preventDefault());
  $('budget').addEventListener('input', showAnswer);
  $('budget').addEventListener('change', showAnswer);
  showAnswer();
}
