// Stores texts and objects in this browser alone. Where the browser allows none, or has no room, nothing is stored and
// nothing fails.

/** @template T @param {() => T} action @returns {T | null} */
function attempt(action) {
  try {
    return action();
  } catch {
    return null;
  }
}

export const readText = key => attempt(() => localStorage.getItem(key));
export const storeText = (key, text) => attempt(() => localStorage.setItem(key, text));

// An empty object where nothing is stored, or something that is not ours.
export function readObject(key) {
  const value = attempt(() => JSON.parse(readText(key)));
  return typeof value === 'object' && value && !Array.isArray(value) ? value : {};
}

export const storeObject = (key, value) => storeText(key, JSON.stringify(value));

// Texts that only this tab keeps, for a reload. Another page that it opens, such as a second link, forgets them.
export const readAfterReload = key =>
  attempt(() => {
    if (!isReload()) sessionStorage.removeItem(key);
    return sessionStorage.getItem(key);
  });
export const storeForReload = (key, text) => attempt(() => sessionStorage.setItem(key, text));

export function isReload() {
  const [entry] = performance.getEntriesByType('navigation');
  return entry instanceof PerformanceNavigationTiming && entry.type === 'reload';
}
