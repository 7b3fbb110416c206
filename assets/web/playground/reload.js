// Remembers the newest run of this tab, so that the server can show it again after a reload.
import { readAfterReload, storeForReload } from '../lib/storage.js';

const KEY = 'speclens-run';

export const rememberRun = key => storeForReload(KEY, key);

// Its key; null on a page that was not reloaded, or has not run anything.
export const reloadedRun = () => readAfterReload(KEY);
