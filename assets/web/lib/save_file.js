// Hands a text to the browser as a file to save.
import { make } from './dom.js';

/** @param {string} text @param {string} type such as text/html @param {string} name of the file */
export function saveFile(text, type, name) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make('a', '', '', { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
