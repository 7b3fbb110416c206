// Opens and closes the drawer with the rarer settings: its button, Escape, and a click beside it.
import { closest } from '../lib/dom.js';

const opener = () => document.getElementById('settings');
const drawer = () => document.getElementById('drawer');
const isOpen = () => drawer()?.classList.contains('sl-open');

function setDrawer(on) {
  drawer().classList.toggle('sl-open', on);
  opener().setAttribute('aria-expanded', String(on));
  drawer().tabIndex = -1;
  (on ? drawer() : opener()).focus({ preventScroll: true });
}

export function listenForDrawer() {
  document.addEventListener('click', event => {
    if (closest(event.target, '#settings')) setDrawer(!isOpen());
  });
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && isOpen() && (closest(event.target, '#drawer') || event.target === opener()))
      setDrawer(false);
  });
}
