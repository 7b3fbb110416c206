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

// Whether this page was loaded again, so that what the tab remembers is its own.
export const isReload = () => performance.getEntriesByType('navigation')[0]?.type === 'reload';
