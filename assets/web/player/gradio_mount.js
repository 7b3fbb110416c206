// Connects the player to gradio: reads each value, and asks for the whole run when values were lost on the way.
const box = element.querySelector('.sl-player');
const ROUNDS = 0.7;      // the rounds are in sight if they begin above this share of the window's height

// Scrolls to the rounds after Run was pressed or a file was opened far below: with Stop above them if there is room.
function bringIntoSight() {
  const top = box.querySelector('.sl-rows').getBoundingClientRect().top, height = window.innerHeight;
  if (!box.offsetParent || (top >= 0 && top < ROUNDS * height)) return;       // another tab is open, or they are in sight
  const buttons = document.querySelector('.sl-actions');
  const fixed = buttons && getComputedStyle(buttons).position === 'fixed';     // on a phone, always in sight
  const above = buttons && !fixed && top - buttons.getBoundingClientRect().top < ROUNDS * height;
  (above ? buttons : box).scrollIntoView({ block: 'start' });
}

let opened = false;       // the run that the page opens with does not scroll it
const player = makePlayer(box, { askAgain: () => trigger('missing'), runStarted: () => opened && bringIntoSight() });
onValue(player.read);
opened = true;
