// How many names the chart shows, and whether any two overlap.
() => {
  const boxes = [...document.querySelectorAll('#tradeoff .chart .name')].map((e) => e.getBoundingClientRect());
  return [boxes.length, boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right && b.left < a.right
    && a.top < b.bottom - 2 && b.top < a.bottom - 2))];
}
