// Whether the titles and arrows of the chart stay inside of it and off each other.
() => {
  const all = [...document.querySelectorAll('#tradeoff .arrow, #tradeoff .axis')].map((e) => e.getBoundingClientRect());
  const box = document.querySelector('#tradeoff .chart').getBoundingClientRect();
  return all.every((a, i) => a.left >= box.left && a.right <= box.right
    && all.slice(i + 1).every((b) => a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top));
}
