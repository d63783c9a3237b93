// The ladder: which rung a defence stands on follows the limit that the reader sets.
const RUNGS = ['proven', 'resisted', 'untested', 'broken'];
const ROWS = 8; // shown before somebody asks for all
const NAMES = 3; // of a rung on the first screen

/** The ladder in short, on the first screen: how many stand on each rung, and the first of them. */
const showShort = (rows, left) => {
  for (const line of document.querySelectorAll('#short li')) {
    const here = rows.filter((row) => row.dataset.rung === line.dataset.rung);
    const names = here.slice(0, NAMES);
    const count = here.length + left.filter((rung) => rung === line.dataset.rung).length;
    line.querySelector('b').textContent = count;
    line.querySelector('.names > .plain').replaceChildren(...names.map((row) => {
      const name = row.querySelector('th .means');
      return meant(name.textContent, name.getAttribute('aria-describedby'));
    }));
    line.querySelector('.names > .technical').textContent = names.map((row) => row.querySelector('th .technical').textContent).join(', ');
    line.querySelector('.more-names').textContent = count > names.length ? ` and ${count - names.length} more` : '';
  }
  if ($('short')) settle($('short'));
};

const showLadder = (view, budget, chosen) => {
  document.querySelectorAll('.budget-now').forEach((part) => { part.textContent = String(Number((10 * budget).toPrecision(6))); });
  document.querySelectorAll(`.view[data-view="${view}"] .ladder tbody`).forEach((body) => {
    const rows = [...body.children];
    rows.forEach((row) => {
      const proven = 'most' in row.dataset && Number(row.dataset.most) <= budget;
      const below = row.querySelector('.if-not');
      row.querySelector('.if-proven').hidden = !proven;
      below.hidden = proven;
      row.dataset.rung = proven ? 'proven' : below.dataset.rung;
      row.classList.toggle('chosen', Boolean(chosen) && Number(row.dataset.point) === chosen.id);
    });
    rows.sort((a, b) => RUNGS.indexOf(a.dataset.rung) - RUNGS.indexOf(b.dataset.rung) || Number(b.dataset.share) - Number(a.dataset.share));
    body.append(...rows);
    // However few rows are shown, each rung has one.
    rows.forEach((row, i) => row.classList.toggle('kept', i === 0 || row.dataset.rung !== rows[i - 1].dataset.rung));
    const table = body.closest('table');
    settle(table, itemsOf(table)[0]);
    // Settings that the table has no room for are counted all the same.
    const left = JSON.parse(table.dataset.left ?? '[]').map(([most, below]) => (most !== null && most <= budget ? 'proven' : below));
    showShort(rows, left);
  });
};

document.querySelectorAll('.all-rows').forEach((button) => {
  const table = button.closest('.view').querySelector('.ladder');
  const fold = (open) => {
    button.setAttribute('aria-expanded', String(open));
    table.classList.toggle('folded', !open);
    button.textContent = open ? `Show the first ${ROWS}` : `Show all ${table.tBodies[0].rows.length}`;
  };
  button.hidden = false;
  fold(false);
  button.addEventListener('click', () => fold(button.getAttribute('aria-expanded') !== 'true'));
});
