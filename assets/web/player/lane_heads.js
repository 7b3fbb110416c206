// Draws the heads of both lanes above the rows, or of a kept branch: which token was forced, Keep and Drop.
import { make, makeButton } from '../lib/dom.js';
import { isolate, tokenText, visible } from '../lib/format.js';

// ``act``: what Keep and Drop do; null without an engine.
export function makeLaneHeads(box, act) {
  const word = forced =>
    make('bdi', 'sl-forced-word', `⤳ “${isolate(visible(tokenText(forced)).trim())}”`, { title: tokenText(forced) });

  function buttons(isOver) {
    const attributes = isOver ? {} : { disabled: '' };
    return act
      ? [makeButton('Keep', act.keep, 'sl-button', attributes), makeButton('Drop', act.drop, 'sl-button', attributes)]
      : [];
  }

  // ``about.prefix``: the run is a branch that was kept.
  function show(branch, about) {
    const parts = branch.on
      ? [
          make('span', '', [make('b', '', 'This run')]),
          make('span', '', [
            make('b', '', 'Branch'),
            word(branch.forced),
            make('span', 'sl-forced-where', `in round ${branch.from + 1}`),
            ...buttons(branch.ended),
          ]),
        ]
      : about.prefix
        ? [
            make('span', '', [
              'A branch from place ',
              `${about.prefix.place + 1}, where `,
              word(about.prefix.forced),
              ' was forced.',
            ]),
          ]
        : [];
    box.replaceChildren(...parts);
    box.hidden = !parts.length;
  }

  return { show };
}
