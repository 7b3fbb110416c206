// Where the player meets gradio: it is fed with the value, and asks again when values were lost on the way.
const box = element.querySelector('.sl-player');
const ROUNDS = 0.7;      // of the window's height: where the rounds begin, at the lowest, to be in sight

// Who presses Run, or opens a file far below, wants to see the rounds: with Stop above them where there is room for both.
function bringIntoSight() {
  const top = box.querySelector('.sl-rows').getBoundingClientRect().top, height = window.innerHeight;
  if (!box.offsetParent || (top >= 0 && top < ROUNDS * height)) return;       // another tab is open; or all is well
  const buttons = document.querySelector('.sl-actions');
  const afoot = buttons && getComputedStyle(buttons).position === 'fixed';     // on a phone: in sight wherever one is
  const above = buttons && !afoot && top - buttons.getBoundingClientRect().top < ROUNDS * height;
  (above ? buttons : box).scrollIntoView({ block: 'start' });
}

let opened = false;       // what the page opens with brings nobody anywhere
const player = makePlayer(box, { missing: () => trigger('missing'), begun: () => opened && bringIntoSight() });
watch('value', () => player.read(props.value));
player.read(props.value);
opened = true;
