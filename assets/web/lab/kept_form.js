// Keeps the form of an experiment for this tab, so that the server can fill it in again after a reload.
import { isReload } from '../lib/storage.js';

// ``box``: the notice of the experiment, which has the form's name.
export function keepForm({ element, trigger }, box) {
  const id = box.dataset.form,
    key = `speclens-form-${id}`;
  try {
    if (!isReload()) sessionStorage.removeItem(key);
    const values = JSON.parse(sessionStorage.getItem(key));
    if (values) trigger('reloaded', { values });
  } catch {
    /* not allowed here */
  }
  document.addEventListener('speclens-form', ({ detail }) => {
    if (detail.id !== id || !element.isConnected) return;
    try {
      sessionStorage.setItem(key, JSON.stringify(detail.values));
    } catch {
      /* not allowed here, or full */
    }
  });
}
