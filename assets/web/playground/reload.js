// Remembers the newest run of this tab, so that the server can show it again after a reload.
import { isReload } from '../lib/storage.js';

const KEY = 'speclens-run';

export function rememberRun(key) {
  try {
    sessionStorage.setItem(KEY, key);
  } catch {
    /* not allowed here */
  }
}

// Its key; null on a page that was not reloaded, or has not run anything. Another page that this tab opens, such as a
// second link, forgets it.
export function reloadedRun() {
  try {
    if (!isReload()) sessionStorage.removeItem(KEY);
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}
