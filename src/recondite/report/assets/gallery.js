// The gallery: order, and one pair at a time, enlarged.
const viewer = $('viewer');
let shown = null;

const siblings = () => [...shown.parentElement.querySelectorAll('button.pair')];

const show = (pair) => {
  shown = pair;
  const [original, rebuilt] = pair.querySelectorAll('img');
  $('viewer-original').src = original.src;
  $('viewer-rebuilt').src = rebuilt.src;
  $('viewer-caption').textContent = pair.dataset.caption;
  $('viewer-scores').textContent = pair.dataset.scores;
  $('viewer-place').textContent = `${siblings().indexOf(pair) + 1} of ${siblings().length}`;
  if (!viewer.open) viewer.showModal();
};

const step = (by) => {
  const all = siblings();
  show(all[(all.indexOf(shown) + by + all.length) % all.length]);
};

// One listener for all pairs.
document.addEventListener('click', (event) => {
  const pair = event.target.closest('button.pair');
  if (pair) show(pair);
});
$('previous').addEventListener('click', () => step(-1));
$('next').addEventListener('click', () => step(1));
viewer.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowLeft') step(-1);
  if (event.key === 'ArrowRight') step(1);
});
viewer.addEventListener('click', (event) => { if (event.target === viewer) viewer.close(); });
viewer.addEventListener('close', () => { if (shown && shown.isConnected) shown.focus(); });

if ($('gallery-order')) {
  $('gallery-order').addEventListener('change', () => {
    const by = $('gallery-order').value;
    const place = by === 'study' ? (strip) => Number(strip.dataset.point) : (strip) => -Number(strip.dataset[by]);
    const strips = [...$('strips').children].sort((a, b) => place(a) - place(b));
    $('strips').replaceChildren(...strips);
  });
}
