// The main rules of axe-core, for where it is not at hand.
() => {
  const found = [];
  const shown = (e) => e.getClientRects().length > 0;
  const name = (e) => (e.getAttribute('aria-label') || (e.getAttribute('aria-labelledby') || '').split(' ')
    .map((id) => document.getElementById(id)?.textContent ?? '').join('') || e.labels?.[0]?.textContent || e.textContent || e.alt || '').trim();
  const all = (what) => [...document.querySelectorAll(what)].filter(shown);
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  if (new Set(ids).size < ids.length) found.push('duplicate-id');
  all('button, a[href], select, input, summary, [role=region], [role=listbox], [role=option], [role=toolbar]')
    .filter((e) => !name(e)).forEach((e) => found.push(`name: ${e.outerHTML.slice(0, 80)}`));
  all('img').filter((e) => !e.hasAttribute('alt')).forEach(() => found.push('image-alt'));
  all('button button, a button, [role=img] [tabindex], [role=option] [tabindex], summary button').forEach((e) => found.push(`nested-interactive: ${e.className}`));
  all('button[aria-label], a[aria-label]').filter((e) => e.innerText.trim().replace(/[^\w ]/g, '').trim()
    && !e.getAttribute('aria-label').toLowerCase().includes(e.innerText.replace(/[^\w ]/g, '').trim().toLowerCase()))
    .forEach((e) => found.push(`label-content-name-mismatch: ${e.outerHTML.slice(0, 80)}`));
  const marks = all('nav, [role=region], section[aria-labelledby], main, header.top, footer').map((e) => `${e.tagName} ${e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby'))?.innerText}`);
  const named = all('[role=region], section[aria-labelledby]').map((e) => name(e));
  if (new Set(named).size < named.length || new Set(marks).size < marks.length) found.push('landmark-unique');
  const levels = all('h1, h2, h3, h4').map((e) => Number(e.tagName[1]));
  levels.forEach((level, i) => { if (i && level > levels[i - 1] + 1) found.push('heading-order'); });
  all('[aria-describedby], [aria-labelledby]').forEach((e) => ['aria-describedby', 'aria-labelledby'].forEach((kind) => (e.getAttribute(kind) || '').split(' ').filter(Boolean)
    .forEach((id) => { if (!document.getElementById(id)) found.push(`${kind}: ${id}`); })));
  all('td, th').filter((e) => e.tagName === 'TH' && !e.scope).forEach(() => found.push('scope'));
  all('.scroll').filter((e) => e.scrollWidth > e.clientWidth && e.tabIndex < 0).forEach(() => found.push('scrollable-region-focusable'));
  if (!document.documentElement.lang) found.push('html-has-lang');
  return found;
}
