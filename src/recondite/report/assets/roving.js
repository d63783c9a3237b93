// One tab stop for a group of many: Tab enters it, arrow keys go through it.
const itemsOf = (group) => [...group.querySelectorAll(group.dataset.roving)].filter((item) => item.getClientRects().length);

const settle = (group, current) => {
  const all = [...group.querySelectorAll(group.dataset.roving)];
  const chosen = current ?? all.find((item) => item.tabIndex === 0 && item.hasAttribute('tabindex')) ?? all[0];
  all.forEach((item) => item.setAttribute('tabindex', item === chosen ? '0' : '-1'));
};

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

document.addEventListener('keydown', (event) => {
  const group = event.target.closest && event.target.closest('[data-roving]');
  if (!group || event.ctrlKey || event.metaKey || event.altKey) return;
  const items = itemsOf(group);
  const at = items.indexOf(event.target.closest(group.dataset.roving));
  if (at < 0) return;
  let next = null;
  if (event.key in STEPS) next = (at + STEPS[event.key] + items.length) % items.length;
  if (event.key === 'Home') next = 0;
  if (event.key === 'End') next = items.length - 1;
  if (next === null) return;
  event.preventDefault();
  settle(group, items[next]);
  items[next].focus();
});

document.querySelectorAll('[data-roving]').forEach((group) => settle(group));
