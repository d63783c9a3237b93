// One-line explanations: the style sheet shows them on hover and focus, Escape puts them away.
const tip = $('tip');
let told = null; // the name whose explanation is shown

/** What a name means is said once, in "How it was made"; here it comes to the name. */
const showTip = (name) => {
  const said = $(name.getAttribute('aria-describedby'));
  if (!said) return;
  told = name;
  tip.textContent = said.textContent;
  tip.hidden = false;
  const spot = name.getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const below = spot.bottom + own.height + 6 < window.innerHeight;
  tip.style.left = `${Math.max(4, Math.min(spot.left, window.innerWidth - own.width - 8))}px`;
  tip.style.top = `${below ? spot.bottom + 2 : Math.max(4, spot.top - own.height - 2)}px`;
};

document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  tip.hidden = true;
  document.querySelectorAll('.tipped').forEach((part) => part.classList.add('away'));
});
for (const event of ['pointerover', 'focusin']) {
  document.addEventListener(event, (of) => {
    const name = of.target.closest && of.target.closest('.means');
    if (name) showTip(name);
    else if (of.target !== tip) tip.hidden = true;
    const part = of.target.closest && of.target.closest('.tipped');
    if (!part) return;
    part.classList.remove('away');
    // Near the right edge a tip opens to the left.
    part.classList.toggle('left', part.getBoundingClientRect().left > window.innerWidth / 2);
  });
}
document.addEventListener('focusout', () => { tip.hidden = true; });
// Focus scrolls: the explanation goes with its name.
window.addEventListener('scroll', () => { if (!tip.hidden) showTip(told); }, { passive: true, capture: true });
