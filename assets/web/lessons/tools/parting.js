// Shows two runs of one prompt, token by token. The learner presses the first token that differs, and reads how near
// the two best logits were there.

import { make, makeButton } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { figure, makeNote, makeResult } from '../widgets/widgets.js';

/** The first place at which two runs have another token; -1 where they have the same, as far as both go.
 * @param {[string, number][]} one @param {[string, number][]} other */
const partingOf = (one, other) => one.findIndex(([text], i) => i < other.length && text !== other[i][0]);

// ``runs``: {name: [[text, gap of the two best logits], …]}, of two runs.
export function makeParting({ runs, note }, touched) {
  const [one, other] = Object.values(runs),
    at = partingOf(one, other);
  const result = makeResult('Press the first token that differs.');

  function press(place) {
    result.dataset.right = String(place === at);
    if (place < at) result.textContent = 'Here both wrote the same token. The difference comes later.';
    else if (place > at)
      result.textContent = `That’s not the first: ${quantity(place - at, 'token')} earlier they part, and from there on they continue different texts.`;
    else {
      const [gap, gapWithDrafts] = [one, other].map(tokens => tokens[at][1].toFixed(3));
      result.textContent = `Here: “${one[at][0].trim()}” without drafts, “${other[at][0].trim()}” with them. Without drafts the two best logits were ${gap} apart, with drafts ${gapWithDrafts}.`;
      for (const node of box.querySelectorAll(`[data-place="${at}"]`)) node.setAttribute('data-parts', '');
    }
    touched();
  }
  const row = ([name, tokens]) =>
    make('div', 'sl-parting', [
      make('h5', '', name),
      make(
        'p',
        'sl-parting-text',
        tokens.map(([text], i) => {
          const token = makeButton(text.replaceAll('\n', '⏎') || '␣', () => press(i), 'sl-parting-token');
          token.dataset.place = String(i);
          token.translate = false;
          return token;
        }),
      ),
    ]);
  const box = figure(
    'Two answers',
    () => {},
    () => {},
    ...Object.entries(runs).map(row),
    result,
    makeNote(note),
  );
  return box;
}
