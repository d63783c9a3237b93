// Sets intruder and budgets as a reader would, moves the slider, and reads what is recommended.
([threat, side, scope, budgets]) => {
  const set = (id, value, event) => {
    const control = document.getElementById(id);
    if (!control) return;
    control.value = value;
    control.dispatchEvent(new Event(event, { bubbles: true }));
  };
  set('threat', threat, 'change');
  set('participation', side, 'change');
  set('scope', scope === null ? '' : String(scope), 'change');
  const parts = { epsilon: 1, rero: 10, identification: 10 };  // chances are asked for in ten
  for (const [name, value] of Object.entries(budgets)) set(name, value === null ? '' : value * parts[name], 'input');
  const slider = document.getElementById('accuracy');
  const out = [];
  for (let i = 0; i <= 24; i += 1) {
    set('accuracy', Number(slider.min) + (slider.max - slider.min) * i / 24, 'input');
    const strong = document.querySelector('#verdict strong');
    const met = document.getElementById('verdict').textContent.startsWith('Use ');
    out.push([Number(slider.value), strong ? strong.textContent : null, met]);
  }
  return out;
}
