// Opens and closes the drawer with the rarer settings: its button, Escape, and a click beside it.

const opener = () => document.getElementById('settings'),
  drawer = () => document.getElementById('drawer');
const isOpen = () => drawer()?.classList.contains('sl-open');

function setDrawer(on) {
  drawer().classList.toggle('sl-open', on);
  opener().setAttribute('aria-expanded', on);
  drawer().tabIndex = -1;
  (on ? drawer() : opener()).focus({ preventScroll: true });
}

export function listenForDrawer() {
  document.addEventListener('click', event => {
    if (event.target.closest?.('#settings')) setDrawer(!isOpen());
  });
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && isOpen() && (drawer().contains(event.target) || event.target === opener()))
      setDrawer(false);
  });
}
