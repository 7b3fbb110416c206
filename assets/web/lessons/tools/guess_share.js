// Makes what a player of “Be the drafter” may send to a friend: a row of coloured squares for each round,
// the score, and a link to the same text.

import { copyText } from '../../lib/copy_button.js';
import { make, makeButton } from '../../lib/dom.js';

// Blue is accepted, orange rejected, white discarded, and yellow the target's own token.
const gridOf = rounds =>
  rounds
    .map(
      ({ accepted, tested, drafted }) =>
        `${'🟦'.repeat(accepted)}${'🟧'.repeat(tested - accepted)}${'⬜'.repeat(drafted - tested)}🟨`,
    )
    .join('\n');

// ``drafters``: [name, α, τ] of those that drafted the same text.
export function messageOf({ name, tau, rounds, drafters, link }) {
  const best = drafters.reduce((first, each) => (each[2] > first[2] ? each : first)),
    whose = best[0] === 'copying' ? 'Copying' : `The ${best[0]}`;
  const score = `I guessed ${tau.toFixed(2)} tokens per pass on “${name}”. ${whose} gets ${best[2].toFixed(2)}.`;
  return `${score}\n${gridOf(rounds)}\nCan you beat that? ${link}`;
}

// The page's address, with the open lesson and the text's number, from 1.
export function linkTo(number) {
  const [page, hash = ''] = location.href.split('#');
  return `${page}#${hash.split('-guess-')[0]}-guess-${number}`;
}

export function makeShare(message) {
  const text = make('pre', 'sl-guess-grid', message, { tabindex: '0', 'aria-label': 'Your game as coloured squares' });
  const copy = makeButton('Copy it for a friend', async () => {
    copy.textContent = await copyText(message, () => getSelection().selectAllChildren(text));
  });
  return [text, make('div', 'sl-buttons', [copy])];
}
