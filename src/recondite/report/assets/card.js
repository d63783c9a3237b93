// The card beside a mark of the chart: what it is, its numbers, what was rebuilt.
const PAIRS = 3; // shown on it

const withEnds = (point, key) => {
  const axis = DATA.axes[key];
  const found = point.v[key];
  if (!found) return '–';
  const side = axis.kind === 'notion' ? axis.success : 0; // a bound is never rounded in its own favour
  const say = (value) => (axis.share ? `${fixed(100 * value, 1, side)}%` : figure(value, 3, side));
  if (found[0] === 'inf') return 'no limit';
  const ends = found.length === 3 ? ` (${say(found[1])} to ${say(found[2])})` : '';
  return `${['≥ ', '', '≤ '][side + 1]}${say(found[0])}${ends}`;
};

/** A point's name and its numbers, each in words. */
const partsOf = (point, x, y) => {
  const name = (key) => (technical() ? DATA.axes[key].short : DATA.axes[key].plain || DATA.axes[key].label);
  return [technical() ? point.label : point.plain, ...[y, x].map((key) => `${name(key)}: ${withEnds(point, key)}`),
    ...(isProven(point) ? ['proven'] : []), ...(point.violated ? ['contradicted'] : [])];
};
const inWords = (point, x, y) => partsOf(point, x, y).join(', ');

const fillCard = (card, point, x, y) => {
  const [title, ...lines] = partsOf(point, x, y);
  card.replaceChildren(element('b', title), ...lines.map((line) => element('span', line)));
  const strip = document.querySelector(`.strip[data-point="${point.id}"] .pairs`);
  if (!strip) return;
  const images = element('div', '', { class: 'mini' });
  [...strip.querySelectorAll('.pair')].slice(0, PAIRS).forEach((pair) => {
    const box = element('div');
    pair.querySelectorAll('img').forEach((image) => box.append(image.cloneNode()));
    images.append(box);
  });
  if (images.querySelector('img')) card.append(images, element('span', 'above: originals', { class: 'faint' }));
};

/** Beside its mark, inside its chart. */
const placeCard = (card, host, spot) => {
  card.hidden = false;
  const room = host.getBoundingClientRect();
  const own = card.getBoundingClientRect();
  const left = spot.x + 14 + own.width > room.width ? Math.max(4, spot.x - own.width - 14) : spot.x + 14;
  const top = Math.min(Math.max(4, spot.y - own.height / 2), Math.max(4, room.height - own.height - 4));
  card.style.left = `${left}px`;
  card.style.top = `${top}px`;
};
