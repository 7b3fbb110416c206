// Makes and changes elements. Text of a model or a visitor never becomes HTML.

const VERBATIM = new Set(['bdi', 'pre', 'code', 'kbd']); // a model's words and commands, which no browser may translate

/** @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} [className]
 * @param {string | any[]} [content] a text, or a list of nodes and texts, of which null, false and '' are left out
 * @param {Record<string, any>} [attributes] a name that begins with -- is a property for CSS */
export function make(tag, className, content, attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (VERBATIM.has(tag) || className?.startsWith('sl-token')) node.translate = false;
  if (Array.isArray(content)) node.append(...content.filter(Boolean));
  else if (content !== undefined) node.textContent = content;
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('--')) node.style.setProperty(name, value);
    else node.setAttribute(name, value);
  }
  return node;
}

/** Returns a function that finds an element of ``root`` by its selector.
 * @param {ParentNode} root @returns {<E extends HTMLElement = HTMLElement>(selector: string) => E} */
export const makeFind = root => selector => root.querySelector(selector);

/** The nearest element around an event's target that matches. Null for none, and for the document as a target.
 * @param {EventTarget} target @param {string} selector @returns {HTMLElement | null} */
export const closest = (target, selector) => (target instanceof Element ? target.closest(selector) : null);

/** Returns the key's name in small letters, or '' for an event without one, as Chrome's autofill sends it. What
 * a letter's key writes on a Cyrillic or Greek layout counts as that letter.
 * @param {KeyboardEvent} event */
export function keyOf({ key, code }) {
  const isForeign = key?.length === 1 && key > '\u007f';
  return ((isForeign && /^Key([A-Z])$/.exec(code)?.[1]) || key || '').toLowerCase();
}

const LESS_MOTION = matchMedia('(prefers-reduced-motion: reduce)');

// Whether the reader has asked for less motion.
export const isCalm = () => LESS_MOTION.matches;

/** Calls ``read(value)`` with the part's value, now and at every change; ``value`` is '' before the first one.
 * @param {import('./part.d.ts').Part} part @param {(value: string) => void} read */
export function onValue({ props, watch }, read) {
  const again = () => read(props.value || '');
  watch('value', again);
  again();
}

/** @param {string | any[]} content @param {(event: MouseEvent) => void} action @param {Record<string, any>} [attributes] */
export function makeButton(content, action, className = 'sl-button', attributes = {}) {
  const node = make('button', className, content, { type: 'button', ...attributes });
  node.addEventListener('click', action);
  return node;
}

/** Writes only a change, because a screen reader may read a text that is written again.
 * @param {Node} node @param {string} text */
export const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};
