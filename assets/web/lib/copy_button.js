// Copies a text; without permission, or on a page without https, ``select()`` shows it instead, and may say how in
// words of its own. Returns the words to show.

export async function copyText(text, select) {
  try {
    await navigator.clipboard.writeText(text);
    return 'Copied';
  } catch {
    return select() ?? 'Selected: press Ctrl + C';
  }
}
