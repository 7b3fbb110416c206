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
    const parts = [];
    if (branch.on) {
      const where = make('span', 'sl-forced-where', `in round ${branch.from + 1}`);
      parts.push([make('b', '', 'This run')]);
      parts.push([make('b', '', 'Branch'), word(branch.forced), where, ...buttons(branch.ended)]);
    } else if (about.prefix) {
      const { place, forced } = about.prefix;
      parts.push(['A branch from place ', `${place + 1}, where `, word(forced), ' was forced.']);
    }
    box.replaceChildren(...parts.map(content => make('span', '', content)));
    box.hidden = !parts.length;
  }

  return { show };
}
