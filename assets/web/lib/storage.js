// Stores texts and objects in this browser alone. Where the browser allows none, nothing is stored and nothing fails.

export function readText(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function storeText(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    /* not allowed here, or full */
  }
}

// An empty object where nothing is stored, or something that is not ours.
export function readObject(key) {
  try {
    const value = JSON.parse(readText(key));
    return typeof value === 'object' && value && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

export const storeObject = (key, value) => storeText(key, JSON.stringify(value));

// Texts that only this tab keeps, for a reload. Another page that it opens, such as a second link, forgets them.
export function readAfterReload(key) {
  try {
    if (!isReload()) sessionStorage.removeItem(key);
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

export function storeForReload(key, text) {
  try {
    sessionStorage.setItem(key, text);
  } catch {
    /* not allowed here, or full */
  }
}

export function isReload() {
  const [entry] = performance.getEntriesByType('navigation');
  return entry instanceof PerformanceNavigationTiming && entry.type === 'reload';
}
