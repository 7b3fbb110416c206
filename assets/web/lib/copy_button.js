// Copies a text; without permission, or on a page without https, it selects the text instead. Returns the words to show.

export async function copyText(text, select) {
  try {
    await navigator.clipboard.writeText(text);
    return 'Copied';
  } catch {
    select();
    return 'Selected: press Ctrl + C';
  }
}
