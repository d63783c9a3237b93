// What the reader chose stands in the address, so that a view can be sent.
const FIELDS = ['threat', 'participation', 'accuracy', 'rero', 'epsilon', 'identification', 'scope', 'x-axis', 'y-axis'].filter($);
const DEFAULTS = Object.fromEntries(FIELDS.map((id) => [id, $(id).value]));

const writeView = () => {
  const chosen = new URLSearchParams(FIELDS.filter((id) => $(id).value !== DEFAULTS[id]).map((id) => [id, $(id).value]));
  if (technical()) chosen.set('voice', 'technical');
  const hash = chosen.toString();
  if (hash === window.location.hash.slice(1)) return;
  try {
    window.history.replaceState(null, '', hash ? `#${hash}` : '#');
  } catch { /* a browser that does not let a file change its address */ }
};

/** Sets what the address says; what a control does not take stays as it was. */
const readView = () => {
  const hash = window.location.hash.slice(1);
  if (hash && !hash.includes('=')) return; // the name of a section
  const asked = new URLSearchParams(hash);
  for (const id of FIELDS) {
    const control = $(id);
    const wanted = asked.get(id) ?? DEFAULTS[id];
    control.value = wanted;
    if (control.value === '' && wanted !== '') control.value = DEFAULTS[id];
  }
  $(asked.get('voice') === 'technical' ? 'voice-technical' : 'voice-plain').checked = true;
  $('budget-box').open = $('budget-box').open || FIELDS.slice(0, 7).some((id) => asked.has(id));
};

// A link within the page moves, and leaves the address alone.
document.addEventListener('click', (event) => {
  const link = event.target.closest && event.target.closest('a[href^="#"]');
  const target = link && $(link.getAttribute('href').slice(1));
  if (!target) return;
  event.preventDefault();
  target.setAttribute('tabindex', '-1');
  target.scrollIntoView();
  target.focus({ preventScroll: true });
});

const apply = () => { readView(); describe(); showAnswer(); drawAll(); };
document.addEventListener('input', writeView);
document.addEventListener('change', writeView);
window.addEventListener('hashchange', apply);
apply();
document.documentElement.dataset.charts = 'live';
