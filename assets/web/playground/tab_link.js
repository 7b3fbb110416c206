// Opens the page that runs the model in the visitor's own tab, with the form's settings after the #
// of its address, which no server gets.

import { closest } from '../lib/dom.js';

// ``controls``: each one's name, its default (null for one that is always named), and the
// control and value with which it counts.
function settings(controls, values) {
  const all = Object.fromEntries(controls.map(([name], i) => [name, values[i]]));
  const counts = ([name, usual, only]) => all[name] !== usual && (!only || all[only[0]] === only[1]);
  const text = value => (typeof value === 'boolean' ? Number(value) : value) ?? '';
  return new URLSearchParams(controls.filter(counts).map(([name]) => [name, text(all[name])]));
}

export function mount({ element, props, trigger }) {
  // Every such link of the page. A click with a key is the browser's own.
  document.addEventListener('click', event => {
    if (!element.isConnected || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!closest(event.target, '.sl-tab-link')) return;
    event.preventDefault();
    trigger('here'); // gradio answers with the values of all controls
  });
  document.addEventListener('speclens-here', ({ detail }) => {
    if (!element.isConnected) return;
    /** @type {HTMLAnchorElement} */
    const link = element.querySelector('.sl-tab-link');
    const address = new URL(link.href);
    address.hash = String(settings(JSON.parse(props.value), detail));
    window.open(address, '_blank', 'noopener');
  });
}
