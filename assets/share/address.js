// The address bar: which of its parts are ours, and how they are written. Knows no DOM beyond the address.

function makeAddress(names) {
  const ours = new Set([...names, 'revision', 'hide', 'present']);
  const joined = parts => parts.filter(Boolean).join('&');

  // Names are letters and underscores, so they need no escaping; commas may stand in a query.
  const view = (hide, present) => joined([hide.length && `hide=${hide.join(',')}`, present && 'present=1']);

  // Parts of others (a theme, say) stay in the address bar, and stay out of links.
  function others() {
    const kept = [...new URLSearchParams(location.search)].filter(([name]) => !ours.has(name));
    return new URLSearchParams(kept).toString();
  }

  function write(query) {
    const search = query ? `?${query}` : '';
    try {
      history.replaceState(history.state, '', location.pathname + search + location.hash);
    } catch { return; }            // a browser that has had too many of these, or a page without an address
    // On a hosted Space the page stands in a frame, and the address bar is the frame's owner's.
    if (window.parent !== window && location.hostname.endsWith('.hf.space')) {
      window.parent.postMessage({ queryString: query, hash: '' }, 'https://huggingface.co');
    }
  }

  return {
    asks: () => [...new URLSearchParams(location.search).keys()].some(name => ours.has(name)),
    link: (query, hide, present) => `${location.origin}${location.pathname}?${joined([query, view(hide, present)])}`.replace(/\?$/, ''),
    show: (query, hide, present) => write(joined([others(), query, view(hide, present)])),
  };
}
