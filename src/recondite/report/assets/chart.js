// Charts: Plotly takes over from the drawn ones after the first paint.
const SYMBOLS = ['circle', 'square', 'diamond', 'triangle-up', 'triangle-down', 'cross', 'x', 'pentagon', 'star', 'hexagon'];
const FILLS = ['', '-open', '-dot', '-open-dot'];
const DASHES = ['solid', 'dash', 'dot', 'dashdot'];
const hidden = new Set();
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const axesOf = (name) => (name === 'tradeoff' ? [$('x-axis').value, $('y-axis').value] : DATA.planes[name]);

/** One trace a series and side: finite bounds on the left, infinite ones in their own strip. */
const traces = (name) => {
  const [x, y] = axesOf(name);
  const made = [];
  DATA.series.forEach((series, index) => {
    if (hidden.has(index)) return;
    const mine = POINTS.filter((p) => p.series === index && valueOf(p, x) !== null
      && Number.isFinite(valueOf(p, y) ?? NaN));
    for (const infinite of [false, true]) {
      const points = mine.filter((p) => Number.isFinite(valueOf(p, x)) !== infinite);
      if (!points.length) continue;
      const ink = colour(`--hue-${series.hue}`);
      const ends = (p, side) => (p.v[y].length === 3 ? Math.abs(p.v[y][side] - p.v[y][0]) : 0);
      made.push({
        type: 'scatter',
        mode: points.length > 1 && !infinite ? 'lines+markers' : 'markers',
        name: series.name,
        x: points.map((p) => (infinite ? '∞' : valueOf(p, x))),
        y: points.map((p) => valueOf(p, y)),
        xaxis: infinite ? 'x2' : 'x',
        yaxis: 'y',
        text: points.map((p) => p.label + (p.violated ? ' (violated bound)' : '')),
        hovertemplate: `<b>%{text}</b><br>${DATA.axes[x].short} ${infinite ? '∞' : '%{x:.4g}'}<br>${DATA.axes[y].short} %{y:.4g}<extra></extra>`,
        marker: {
          color: ink,
          symbol: SYMBOLS[series.shape] + FILLS[series.run % FILLS.length],
          size: points.map((p) => (p === state.chosen && name === 'tradeoff' ? 14 : 10)),
          opacity: 1,
          line: { color: ink, width: 1 },
        },
        line: { color: ink, width: 1, dash: DASHES[series.run % DASHES.length] },
        error_y: {
          type: 'data', symmetric: false, visible: points.some((p) => p.v[y].length === 3),
          array: points.map((p) => ends(p, 2)), arrayminus: points.map((p) => ends(p, 1)),
          color: ink, thickness: 1, width: 0,
        },
      });
    }
  });
  return name === 'tradeoff' ? [...rings(x, y), ...made] : made;
};

/** Rings around the points of the front, under their marks. */
const rings = (x, y) => [false, true].flatMap((infinite) => {
  const points = POINTS.filter((p) => state.front.has(p.id) && !hidden.has(p.series)
    && valueOf(p, x) !== null && valueOf(p, y) !== null && Number.isFinite(valueOf(p, x)) !== infinite);
  return points.length ? [{
    type: 'scatter', mode: 'markers', hoverinfo: 'skip', meta: 'rings',
    x: points.map((p) => (infinite ? '∞' : valueOf(p, x))), y: points.map((p) => valueOf(p, y)),
    xaxis: infinite ? 'x2' : 'x', yaxis: 'y',
    marker: {
      symbol: 'circle-open', color: colour('--ink'), opacity: 1,
      size: points.map((p) => (p === state.chosen ? 26 : 18)),
      line: { width: points.map((p) => (p === state.chosen ? 2.5 : 1.2)) },
    },
  }] : [];
});

const layout = (name, drawn) => {
  const [x, y] = axesOf(name);
  const banded = drawn.some((trace) => trace.xaxis === 'x2');
  const plain = drawn.some((trace) => trace.xaxis === 'x');
  const kind = (key, values) => (DATA.axes[key].log && values.every((v) => v > 0) ? 'log' : 'linear');
  const style = { gridcolor: colour('--line'), zeroline: false, linecolor: colour('--line'), tickcolor: colour('--line'), automargin: true };
  const finite = drawn.filter((trace) => trace.xaxis === 'x').flatMap((trace) => trace.x);
  const phone = window.innerWidth < 600;
  const short = (key) => (phone ? DATA.axes[key].short : DATA.axes[key].label);
  return {
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour('--ink') },
    paper_bgcolor: 'rgba(0,0,0,0)',
    plot_bgcolor: 'rgba(0,0,0,0)',
    margin: { l: 58, r: 12, t: 12, b: 52 },
    showlegend: false,
    hovermode: 'closest',
    hoverlabel: { bgcolor: colour('--surface'), bordercolor: colour('--line'), font: { color: colour('--ink') } },
    // A finger that scrolls the page must not zoom the chart.
    dragmode: window.matchMedia('(pointer: coarse)').matches ? false : 'zoom',
    xaxis: { ...style, title: { text: short(x), standoff: 12 }, type: kind(x, finite), domain: banded ? [0, plain ? 0.92 : 0] : [0, 1], visible: plain, exponentformat: 'power' },
    xaxis2: { ...style, domain: [plain ? 0.94 : 0, 1], visible: banded, type: 'category', showgrid: false, title: plain ? undefined : { text: short(x) } },
    yaxis: { ...style, title: { text: short(y), standoff: 8 }, type: kind(y, drawn.flatMap((t) => t.y)), exponentformat: 'power', tickformat: y === 'accuracy' ? '.0%' : undefined },
    shapes: banded && plain ? [{ type: 'rect', xref: 'paper', yref: 'paper', x0: 0.935, x1: 1, y0: 0, y1: 1, fillcolor: colour('--band'), line: { width: 0 }, layer: 'below' }] : [],
  };
};

const CONFIG = {
  displayModeBar: window.matchMedia('(pointer: coarse)').matches ? false : 'hover',
  displaylogo: false, responsive: true, scrollZoom: false, showTips: false,
  modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d', 'zoomIn2d', 'zoomOut2d', 'pan2d'],
};

const draw = (name) => {
  const host = document.querySelector(`.plot[data-plot=${name}]`);
  const live = host && host.querySelector('.live');
  if (!live || !window.Plotly) return;
  const drawn = traces(name);
  live.hidden = false;
  host.classList.add('is-live');
  host.dataset.axes = axesOf(name).join(' ');
  window.Plotly.react(live, drawn, layout(name, drawn), CONFIG);
  const shown = drawn.filter((trace) => trace.meta !== 'rings').reduce((sum, trace) => sum + trace.x.length, 0);
  const [x, y] = axesOf(name).map((key) => DATA.axes[key]);
  live.setAttribute('aria-label', `Scatter plot of ${y.label} against ${x.label}, ${shown} points; the numbers are in the table below.`);
};

const near = new Set();
const drawAll = () => near.forEach(draw);

/** A chart is drawn when it comes near, and again whenever something it shows changes. */
const watch = () => {
  const watcher = new IntersectionObserver((entries) => entries.forEach((entry) => {
    const name = entry.target.dataset.plot;
    if (!entry.isIntersecting || near.has(name)) return;
    near.add(name);
    draw(name);
  }), { rootMargin: '800px' });
  document.querySelectorAll('.plot').forEach((plot) => watcher.observe(plot));
};

const describe = () => {
  const [x, y] = axesOf('tradeoff');
  const missing = POINTS.filter((p) => valueOf(p, x) === null || valueOf(p, y) === null).length;
  const left = missing ? ` ${missing} of ${POINTS.length} settings have no such number and are not drawn.` : '';
  $('about-axes').textContent = `Across: ${DATA.axes[x].about} Up: ${DATA.axes[y].about}${left}`;
};

if ($('x-axis')) {
  for (const id of ['x-axis', 'y-axis']) {
    $(id).addEventListener('change', () => { describe(); near.add('tradeoff'); draw('tradeoff'); });
  }
  describe();
  document.querySelectorAll('button.cell').forEach((cell) => cell.addEventListener('click', () => {
    $('x-axis').value = cell.dataset.x;
    $('y-axis').value = cell.dataset.y;
    describe();
    near.add('tradeoff');
    draw('tradeoff');
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

listeners.theme.push(drawAll);
// A slider tells of every step: one drawing a frame is enough.
let waiting = false;
listeners.choice.push(() => {
  if (waiting || !near.has('tradeoff')) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw('tradeoff'); });
});

const load = async () => {
  if (!document.querySelector('.plot') || !window.DecompressionStream) return;
  const script = element('script', await unpack('plotly'));
  document.head.append(script);
  watch();
  document.documentElement.dataset.charts = 'live';
};

// Two frames: the first has painted by then.
document.addEventListener('DOMContentLoaded', () => {
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(load, 0)));
});
