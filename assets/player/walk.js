// Pointer and arrow keys inside the rows: hovering or focusing a token previews it, Enter or a click locks it.

function walkRows(frame, rows, tape, { stageNow, preview, hide, leave }) {
  const tokenAt = node => rows.tokenOf(node?.closest?.('.sl-token'));
  const seen = token => token && stageNow(token) !== 'hidden';

  function neighbour(token, key) {
    const { tokens } = tape.rounds[token.round];
    const round = step => tape.rounds[token.round + step]?.tokens;
    if (key === 'ArrowRight') return tokens[token.index + 1] || round(1)?.[0];
    if (key === 'ArrowLeft') return tokens[token.index - 1] || round(-1)?.at(-1);
    if (key === 'ArrowDown') return round(1)?.[0];
    return round(-1)?.[0];
  }

  // Where the keyboard enters: the inspected token, else the first in sight.
  function entrance() {
    const top = frame.getBoundingClientRect().top;
    const first = [...frame.querySelectorAll('.sl-token:not([hidden])')].find(node => node.getBoundingClientRect().top >= top);
    return tokenAt(frame.querySelector('[aria-current]') || first);
  }

  frame.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const token = tokenAt(event.target), arrow = event.key.startsWith('Arrow');
    if (token && event.key === 'Escape') { event.preventDefault(); hide(); return leave(); }
    let next = null;
    if (token && arrow) next = neighbour(token, event.key);
    else if (!token && (event.key === 'ArrowDown' || event.key === 'Enter')) next = entrance();
    else return;
    event.preventDefault();
    if (seen(next)) rows.nodeOf(next)?.focus();
  });
  // Space is the player's; without this it would also press the token.
  frame.addEventListener('keyup', event => { if (event.key === ' ') event.preventDefault(); });
  // A click must not leave the keyboard inside a token (arrows would walk there) nor in a text field.
  frame.addEventListener('mousedown', event => {
    if (tokenAt(event.target)) { event.preventDefault(); frame.focus({ preventScroll: true }); }
  });

  // Only a mouse that is moved points at anything: rows that scroll beneath one at rest say "over", but not "move".
  let pointed = null, mouse = '';
  const where = event => `${event.screenX} ${event.screenY}`;
  function rest() {
    pointed = null;
    if (tokenAt(document.activeElement)) preview(document.activeElement); else hide();
  }
  document.addEventListener('mousemove', event => { mouse = where(event); }, { passive: true });
  frame.addEventListener('mouseover', event => {
    if (where(event) !== mouse) return;
    if (pointed && tokenAt(event.target) === pointed) preview(event.target.closest('.sl-token'));  // drawn anew
    else rest();
  });
  frame.addEventListener('mousemove', event => {
    const token = tokenAt(event.target);
    if (!token) return rest();
    if (token !== pointed) preview(event.target.closest('.sl-token'));
    pointed = token;
  });
  frame.addEventListener('mouseleave', rest);
  frame.addEventListener('focusin', event => { if (tokenAt(event.target)) preview(event.target); });
  frame.addEventListener('focusout', hide);
}
