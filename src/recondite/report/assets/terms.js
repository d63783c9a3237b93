// One-line explanations: the style sheet shows them on hover and focus, Escape puts them away.
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  document.querySelectorAll('.tipped').forEach((part) => part.classList.add('away'));
});
for (const event of ['pointerover', 'focusin']) {
  document.addEventListener(event, (of) => {
    const part = of.target.closest && of.target.closest('.tipped');
    if (!part) return;
    part.classList.remove('away');
    // Near the right edge a tip opens to the left.
    part.classList.toggle('left', part.getBoundingClientRect().left > window.innerWidth / 2);
  });
}
