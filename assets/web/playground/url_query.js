// Tells whether the page's URL has a query of ours, and writes it. share_dialog.js sends
// it, app/playground/links.py reads it.

export function makeUrlQuery(names) {
  const ours = new Set([...names, 'revision', 'hide', 'only', 'present', 'force']);
  const join = parts => parts.filter(Boolean).join('&');

  // Not escaped: names are letters and underscores, and a query may contain commas.
  function view(hide, present) {
    const shown = names.filter(name => !hide.includes(name)),
      hiding = hide.length > shown.length ? `only=${shown.join(',')}` : hide.length && `hide=${hide.join(',')}`;
    return join([hiding, present && 'present=1']);
  }

  // Foreign parameters (a theme, say) stay in the address bar, and out of links.
  function others() {
    const foreign = [...new URLSearchParams(location.search)].filter(([name]) => !ours.has(name));
    return new URLSearchParams(foreign).toString();
  }

  let written = null;
  window.addEventListener('popstate', () => {
    if (written !== null) write(written); // an entry from before has the settings of then
  });

  function write(query) {
    const search = query ? `?${query}` : '';
    written = query;
    try {
      history.replaceState(history.state, '', location.pathname + search + location.hash);
    } catch {
      return;
    } // too many changes for the browser, or a page without an address
    // On a hosted Space the page is in a frame, and the address bar belongs to the page around it.
    if (window.parent !== window && location.hostname.endsWith('.hf.space')) {
      window.parent.postMessage({ queryString: query, hash: '' }, 'https://huggingface.co');
    }
  }

  // The controls that the address hides; the server may say later what else it does.
  function findHidden() {
    const query = new URLSearchParams(location.search),
      [hide, only] = ['hide', 'only'].map(name => query.get(name)?.split(','));
    return names.filter(name => hide?.includes(name) || (only && !only.includes(name)));
  }

  return {
    findHidden,
    asks: () => [...new URLSearchParams(location.search).keys()].some(name => ours.has(name)),
    // Of a lesson, an exercise or an experiment the link opens that, with the controls as they are on a fresh page.
    link(query, hide, present) {
      const search = join([location.hash ? '' : query, view(hide, present)]);
      return `${location.origin}${location.pathname}${search && `?${search}`}${location.hash}`;
    },
    show: (query, hide, present) => write(join([others(), query, view(hide, present)])),
  };
}
