// Says what keeps a browser from running the engine, and whether a device has too little memory. Knows no DOM.

const SMALLEST = 4; // GB of memory, by the browser's own rounded figure, with which the weights in fp32 fit
const NEEDED = ['WebAssembly', 'Worker', 'DecompressionStream'];

/** Why the engine can't start, or ''. ``scope``: the page's window. */
export function obstacleOf(scope) {
  if (scope.location.protocol === 'file:')
    return 'A page opened from disk can’t start the engine. Open it through a web server.';
  if (!scope.isSecureContext)
    return 'Open this page over https. Otherwise the browser can’t check the model or keep it.';
  if (scope.origin === 'null')
    return 'This page is shown inside another one, which doesn’t let it start the engine. Open it in a tab of its own.';
  const absent = NEEDED.find(name => !scope[name]);
  return absent ? `This browser has no ${absent}, which the engine needs. Update it, or use another one.` : '';
}

/** Whether the model won't fit. A tablet may call itself a desktop, but only a touch screen has several fingers.
 * @param {{ userAgent: string, deviceMemory?: number, maxTouchPoints?: number }} navigator the browser's
 * @param {boolean} hasMouse some pointer of it is fine */
export function isTooSmall({ userAgent, deviceMemory, maxTouchPoints = 0 }, hasMouse) {
  const isTablet = maxTouchPoints > 1 && (!hasMouse || userAgent.includes('Macintosh'));
  return (deviceMemory ?? (isTablet ? 0 : SMALLEST)) < SMALLEST || /Android|iPhone|iPad/.test(userAgent);
}
