// Keeps the form of an experiment for this tab, so that the server can fill it in again after a reload.
import { readAfterReload, storeForReload } from '../lib/storage.js';

// ``box``: the notice of the experiment, which has the form's name.
export function keepForm({ element, trigger }, box) {
  const id = box.dataset.form,
    key = `speclens-form-${id}`,
    kept = readAfterReload(key);
  if (kept) trigger('reloaded', { values: JSON.parse(kept) });
  document.addEventListener('speclens-form', ({ detail }) => {
    if (detail.id === id && element.isConnected) storeForReload(key, JSON.stringify(detail.values));
  });
}
