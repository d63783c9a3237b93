// The chart: one SVG a plane, drawn anew whenever its axes, the choice or the voice change.
const SVG = 'http://www.w3.org/2000/svg';
const MANY = 40; // points above which all but the front fade
const NEAR = 28; // pixels to a mark that a pointer means
const hidden = new Set();

const shape = (tag, attributes = {}, text = '') => {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
};

const axesOf = (name) => {
  if (name !== 'tradeoff') return DATA.planes[name];
  return technical() ? [$('x-axis').value, $('y-axis').value] : [DATA.x, 'accuracy'];
};

/** Larger is better for the reader: accuracy up, an attacker's success down. */
const better = (key) => (DATA.axes[key].success === 1 ? -1 : 1);
const arrowOf = (key) => (DATA.axes[key].success === 0 ? 'more accurate' : 'safer');
const isProven = (point) => state.proven.has(point.id);

/** Points that no other beats on both axes, ordered across. */
const frontOf = (points, x, y) => {
  const sorted = [...points].sort((a, b) => better(x) * (valueOf(b, x) - valueOf(a, x)) || better(y) * (valueOf(b, y) - valueOf(a, y)));
  let best = -Infinity;
  return sorted.filter((point) => {
    const height = better(y) * valueOf(point, y);
    const kept = height > best;
    best = Math.max(best, height);
    return kept;
  });
};

const frame = (width, banded) => {
  const box = { width, height: width < 500 ? 340 : 430, left: 62, right: 14, top: 34, bottom: 62, band: banded ? 56 : 0 };
  box.x = (share) => box.left + share * (width - box.left - box.right - box.band);
  box.y = (share) => box.height - box.bottom - share * (box.height - box.top - box.bottom);
  box.infinity = width - box.right - box.band / 2 + 4;
  return box;
};

const grid = (svg, box, xs, ys, x, y) => {
  const tick = (key, value) => (DATA.axes[key].share ? `${nameTick(Number((100 * value).toPrecision(6)))}%` : nameTick(value));
  ys.ticks.forEach((value) => {
    const at = box.y(ys.at(value));
    svg.append(shape('path', { class: 'grid', d: `M${box.x(0)} ${at}H${box.width - box.right}` }),
      shape('text', { class: 'tick', x: box.left - 8, y: at + 4, 'text-anchor': 'end' }, tick(y, value)));
  });
  const room = Math.max(1, Math.floor((box.x(1) - box.x(0)) / 62));
  const every = Math.ceil(xs.ticks.length / room);
  xs.ticks.forEach((value, index) => {
    const at = box.x(xs.at(value));
    svg.append(shape('path', { class: 'grid', d: `M${at} ${box.y(0)}V${box.y(1)}` }));
    if (index % every === 0) svg.append(shape('text', { class: 'tick', x: at, y: box.y(0) + 18, 'text-anchor': 'middle' }, tick(x, value)));
  });
  if (!box.band) return;
  svg.append(shape('rect', { class: 'band', x: box.width - box.right - box.band + 8, y: box.y(1), width: box.band - 8, height: box.y(0) - box.y(1) }),
    shape('text', { class: 'tick', x: box.infinity, y: box.y(0) + 18, 'text-anchor': 'middle' }, 'no limit'));
};

const titles = (svg, box, x, y) => {
  const name = (key) => {
    const axis = DATA.axes[key];
    const full = technical() ? axis.label : axis.plain || axis.label;
    if (full.length * 7 <= box.width - 130) return full;
    // The plain voice has no abbreviations: on a phone it leaves out what stands after a comma.
    return technical() || !axis.plain ? axis.short : full.split(/, | \(/)[0];
  };
  const narrow = box.width < 480;
  const across = better(x) < 0 ? `← ${arrowOf(x)}` : `${arrowOf(x)} →`;
  const up = better(y) < 0 ? `↓ ${arrowOf(y)}` : `↑ ${arrowOf(y)}`;
  svg.append(
    shape('text', { class: 'arrow', x: better(x) < 0 ? box.x(0) : box.x(1), y: box.height - 10, 'text-anchor': better(x) < 0 ? 'start' : 'end' }, across),
    narrow && better(x) < 0
      ? shape('text', { class: 'axis', x: box.width - 6, y: box.height - 10, 'text-anchor': 'end' }, name(x))
      : shape('text', { class: 'axis', x: (box.x(0) + box.x(1)) / 2 + (better(x) < 0 ? 30 : -30), y: box.height - 10, 'text-anchor': 'middle' }, name(x)),
    shape('text', { class: 'arrow', x: 6, y: 16 }, up),
    shape('text', { class: 'axis', x: better(y) < 0 ? 70 : up.length * 7.4 + 16, y: 16 }, name(y)),
  );
};

const collide = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

/** Names of the points that matter most, each where nothing lies; none where there is no room. */
const label = (svg, box, spots, first) => {
  const taken = spots.flatMap((spot) => [{ x: spot.x - 7, y: spot.y - 7, width: 14, height: 14 },
    ...(spot.ends ? [{ x: spot.x - 2, y: spot.ends[1], width: 4, height: spot.ends[0] - spot.ends[1] }] : [])]);
  for (const spot of first) {
    const text = shape('text', { class: `name${spot.point === state.chosen ? ' chosen' : ''}` }, technical() ? spot.point.label : spot.point.plain);
    svg.append(text);
    const size = text.getBBox();
    const places = [[11, 4], [-11 - size.width, 4], [-size.width / 2, -12], [-size.width / 2, 22], [9, -9], [9, 17], [-9 - size.width, -9], [-9 - size.width, 17]];
    const fits = places.map(([dx, dy]) => ({ x: spot.x + dx, y: spot.y + dy - size.height + 4, width: size.width, height: size.height }))
      .find((area) => area.x > box.left && area.x + area.width < box.width - 2 && area.y > box.y(1) - 4 && area.y + area.height < box.y(0) + 2
        && !taken.some((other) => collide(area, other)));
    if (!fits) { text.remove(); continue; }
    text.setAttribute('x', fits.x);
    text.setAttribute('y', fits.y + size.height - 4);
    taken.push(fits);
  }
};

const draw = (name) => {
  const host = document.querySelector(`.plot[data-plot=${name}]`);
  const width = host ? Math.floor(host.clientWidth) - 2 : 0;
  if (width < 100) return; // hidden with the other voice
  const [x, y] = axesOf(name);
  const points = POINTS.filter((p) => !hidden.has(p.series) && valueOf(p, x) !== null && Number.isFinite(valueOf(p, y) ?? NaN));
  const box = frame(width, points.some((p) => valueOf(p, x) === Infinity));
  const xs = scaleOf(points.map((p) => valueOf(p, x)), DATA.axes[x].log);
  const ys = scaleOf(points.flatMap((p) => p.v[y]), DATA.axes[y].log);
  const svg = shape('svg', {
    class: `chart${points.length > MANY ? ' many' : ''}`, viewBox: `0 0 ${box.width} ${box.height}`, role: 'listbox', 'data-roving': '.point',
    'aria-label': `${DATA.axes[y].label} against ${DATA.axes[x].label}, ${points.length} points; the numbers are in a table below`,
  });
  host.replaceChildren(svg);
  host.dataset.axes = `${x} ${y}`;
  grid(svg, box, xs, ys, x, y);
  titles(svg, box, x, y);
  const spots = points.map((point) => ({
    point, x: valueOf(point, x) === Infinity ? box.infinity : box.x(xs.at(valueOf(point, x))), y: box.y(ys.at(valueOf(point, y))),
    ends: point.v[y].length === 3 ? point.v[y].slice(1).map((end) => box.y(ys.at(end))) : null,
  })).sort((a, b) => a.x - b.x);
  const front = frontOf(points, x, y);
  const place = new Map(spots.map((spot) => [spot.point, spot]));
  const line = front.map((point) => place.get(point)).filter((spot) => valueOf(spot.point, x) !== Infinity);
  if (line.length > 1) svg.append(shape('path', { class: 'front', d: `M${line.map((spot) => `${spot.x} ${spot.y}`).join('L')}` }));
  for (const spot of spots) {
    const { point } = spot;
    const series = DATA.series[point.series];
    const matters = front.includes(point) || point === state.chosen;
    const mark = shape('g', {
      class: `point hue-${series.hue}${matters ? ' matters' : ''}${point === state.chosen ? ' chosen' : ''}`, transform: `translate(${spot.x} ${spot.y})`,
      role: 'option', 'aria-selected': String(point === state.chosen), 'aria-label': inWords(point, x, y), 'data-point': point.id, tabindex: '-1',
    });
    if (spot.ends) mark.append(shape('path', { class: 'whisker', d: `M0 ${spot.ends[0] - spot.y}V${spot.ends[1] - spot.y}` }));
    if (name === 'tradeoff' && isProven(point)) mark.append(shape('circle', { class: 'ring', r: point === state.chosen ? 13 : 9.5 }));
    mark.append(shape('path', { class: `mark${series.run % 2 ? ' hollow' : ''}`, d: series.path }));
    svg.append(mark);
    spot.mark = mark;
  }
  const rank = (spot) => (spot.point === state.chosen ? 0 : 1 + !front.includes(spot.point));
  const ordered = [...spots].sort((a, b) => rank(a) - rank(b));
  label(svg, box, spots, points.length > MANY ? ordered.filter((spot) => rank(spot) < 2).slice(0, 12) : ordered);
  settle(svg, spots.find((spot) => spot.point === state.chosen)?.mark);
  live(host, svg, spots, x, y);
};

/** The card follows the pointer, the finger and the focus. */
const live = (host, svg, spots, x, y) => {
  const card = element('div', '', { class: 'card', 'aria-hidden': 'true', hidden: '' });
  host.append(card);
  const show = (spot) => { fillCard(card, spot.point, x, y); placeCard(card, host, spot); };
  const nearest = (event) => {
    const area = svg.getBoundingClientRect();
    const at = { x: event.clientX - area.left, y: event.clientY - area.top };
    const away = (spot) => Math.hypot(spot.x - at.x, spot.y - at.y);
    const close = spots.reduce((best, spot) => (best && away(best) <= away(spot) ? best : spot), null);
    return close && away(close) <= NEAR ? close : null;
  };
  const follow = (event) => {
    const spot = nearest(event);
    if (spot) show(spot); else card.hidden = true;
  };
  svg.addEventListener('pointermove', follow);
  svg.addEventListener('pointerdown', follow);
  svg.addEventListener('pointerleave', (event) => { if (event.pointerType === 'mouse') card.hidden = true; });
  svg.addEventListener('focusin', (event) => {
    const spot = spots.find((one) => one.mark === event.target.closest('.point'));
    if (spot) show(spot);
  });
  svg.addEventListener('focusout', () => { card.hidden = true; });
  svg.addEventListener('keydown', (event) => { if (event.key === 'Escape') card.hidden = true; });
};

const drawAll = () => document.querySelectorAll('.plot').forEach((plot) => draw(plot.dataset.plot));
// A slider tells of every step: one drawing a frame is enough.
let waiting = false;
const drawSoon = () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawAll(); });
};

const describe = () => {
  if (!$('x-axis')) return;
  const [x, y] = [$('x-axis').value, $('y-axis').value];
  const missing = POINTS.filter((p) => valueOf(p, x) === null || valueOf(p, y) === null).length;
  const left = missing ? ` ${missing} of ${POINTS.length} settings have no such number and are not drawn.` : '';
  $('about-axes').textContent = `Across: ${DATA.axes[x].about} Up: ${DATA.axes[y].about}${left}`;
};

if ($('x-axis')) {
  for (const id of ['x-axis', 'y-axis']) $(id).addEventListener('change', () => { describe(); draw('tradeoff'); });
  document.querySelectorAll('button.cell').forEach((cell) => cell.addEventListener('click', () => {
    $('x-axis').value = cell.dataset.x;
    $('y-axis').value = cell.dataset.y;
    $('x-axis').dispatchEvent(new Event('change', { bubbles: true }));
    const calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
    $('tradeoff').scrollIntoView({ behavior: calm ? 'auto' : 'smooth' });
    $('x-axis').focus({ preventScroll: true });
  }));
}

document.querySelectorAll('.legend button').forEach((button) => button.addEventListener('click', () => {
  const index = Number(button.dataset.series);
  if (hidden.has(index)) hidden.delete(index); else hidden.add(index);
  document.querySelectorAll(`.legend button[data-series="${index}"]`).forEach((twin) => {
    twin.setAttribute('aria-pressed', String(!hidden.has(index)));
  });
  drawAll();
}));

listeners.choice.push(drawSoon);
listeners.voice.push(() => { describe(); drawAll(); });
window.addEventListener('resize', drawSoon);
