// Axes of the chart: linear or logarithmic, from values to shares of the axis, with few ticks.
const superscript = (power) => String(power).replace(/./g, (c) => '⁰¹²³⁴⁵⁶⁷⁸⁹⁻'['0123456789-'.indexOf(c)]);

const nameTick = (value) => {
  const power = Math.round(Math.log10(Math.abs(value)));
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-3 || size >= 1e5)) {
    return Math.abs(size / 10 ** power - 1) < 1e-9 ? `10${superscript(power)}` : figure(value, 2);
  }
  return String(Number(value.toPrecision(6))).replace('-', '−');
};

const linear = (low, high) => {
  let [from, to] = [low, high];
  if (to - from < 1e-9 * Math.max(1, Math.abs(to))) {
    const pad = Math.abs(to) / 2 || 0.5;
    [from, to] = [from - pad, to + pad];
  }
  const rough = (to - from) / 5;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * unit).find((s) => s >= rough * 0.999);
  const pad = 0.06 * (to - from);
  [from, to] = [from - pad, to + pad];
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i <= to / step + 1e-9; i += 1) ticks.push(Number((i * step).toPrecision(12)));
  return { at: (value) => (value - from) / (to - from), ticks };
};

const logarithmic = (low, high) => {
  const pad = (high / low) ** 0.06;
  const [from, to] = [Math.log10(low / pad), Math.log10(high * pad)];
  const decades = [];
  for (let d = Math.ceil(from); d <= to; d += 1) decades.push(d);
  const stride = Math.max(1, Math.ceil(decades.length / 6));
  let ticks = decades.filter((d) => d % stride === 0).map((d) => 10 ** d);
  if (ticks.length < 3) {
    ticks = [];
    for (let d = Math.floor(from); d <= Math.ceil(to); d += 1) {
      for (const m of [1, 2, 5]) if (Math.log10(m) + d >= from && Math.log10(m) + d <= to) ticks.push(m * 10 ** d);
    }
  }
  return { at: (value) => (Math.log10(value) - from) / (to - from), ticks };
};

/** A scale over finite values; logarithmic only where that is asked for and every value positive. */
const scaleOf = (values, log) => {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return { at: () => 0.5, ticks: [] };
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  return log && low > 0 && high / low > 5 ? logarithmic(low, high) : linear(low, high);
};
