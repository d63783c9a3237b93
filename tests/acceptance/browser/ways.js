// Every way out of a page that a script might take.
async (to) => {
  const tries = [
    () => fetch(to + 'fetch'), () => fetch(to + 'nocors', { mode: 'no-cors', method: 'POST', body: 'x' }),
    () => navigator.sendBeacon(to + 'beacon', 'x'), () => { const r = new XMLHttpRequest(); r.open('GET', to + 'xhr'); r.send(); },
    () => { new Image().src = to + 'image'; }, () => new WebSocket(to.replace('http', 'ws') + 'socket'),
    () => new EventSource(to + 'events'), () => new Worker(to + 'worker.js'),
    () => { document.body.append(Object.assign(document.createElement('iframe'), { src: to + 'frame' })); },
    () => { document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href: to + 'style' })); },
    () => { document.head.append(Object.assign(document.createElement('link'), { rel: 'prefetch', href: to + 'prefetch' })); },
    () => { document.body.append(Object.assign(document.createElement('video'), { src: to + 'video' })); },
    () => { document.body.append(Object.assign(document.createElement('object'), { data: to + 'object' })); },
    () => { document.body.style.backgroundImage = `url(${to}css)`; },
    () => { const f = document.createElement('form'); f.action = to + 'form'; f.method = 'post'; document.body.append(f); f.submit(); },
    () => { document.head.append(Object.assign(document.createElement('script'), { src: to + 'script' })); },
    () => import(to + 'module'), () => { document.body.innerHTML = `<img src="${to}html">`; },
  ];
  let threw = 0;
  for (const go of tries) { try { await go(); } catch { threw += 1; } }
  await new Promise((done) => setTimeout(done, 800));
  return [tries.length, threw];
}
