// Shows how the drafts of a block were decided on together: a line a draft, and the block rolled again.
/** @import { Round, Token } from './rounds.d.ts' */
import { make } from '../lib/dom.js';
import { format, spokenPercent, tokenText } from '../lib/format.js';
import { isDrafted, isEmitted, STATUSES } from '../lib/statuses.js';
import { firstToPass, isOnPath } from './timeline.js';

/** @param {Round} round */
const draftsOf = round => round.tokens.filter(isDrafted);
/** @param {Round} round */
export const rollBlock = round => draftsOf(round).map(() => Math.random());

const COLUMNS = [
  ['draft', ''],
  ['min(1, p/q)', 'Its chance alone'],
  ['pᵢ', 'The products p/q so far, each cut at 1'],
  ['hᵢ', 'The chance that the block ends here, if no draft tried before it passes'],
  ['uᵢ', 'It passes if uᵢ < hᵢ'],
  ['', ''],
];

/** @param {Round} round @param {Token} token
 * @param {number[] | null} rolled the u of each draft, or null for the recorded ones */
export function blockNode(round, token, rolled) {
  const drafts = draftsOf(round),
    us = rolled ?? drafts.map(draft => draft.u),
    last = firstToPass(round, us);
  const head = make(
    'tr',
    '',
    COLUMNS.map(([word, title]) => make('th', '', word, title ? { title } : {})),
  );
  const rows = drafts.map((draft, i) =>
    make('tr', draft === token ? 'sl-here' : '', [
      make('td', '', [`${STATUSES[draft.status].mark} `, make('bdi', 'sl-name', tokenText(draft))]),
      ...[draft.accept, draft.running, draft.h, us[i]].map(number =>
        make('td', '', number === undefined ? '' : format(number)),
      ),
      make(
        'td',
        '',
        i + 1 === last ? `passes, ${round.parents ? 'first' : 'last'}` : us[i] < draft.h ? 'passes' : 'fails',
      ),
    ]),
  );
  return make('div', 'sl-block', [make('table', '', [make('thead', '', [head]), make('tbody', '', rows)])]);
}

/** The chance that draft i or one that follows it decides. @param {Round} round @param {number} i */
export function chanceOf(round, i) {
  let chance = 0,
    fails = 1;
  for (const draft of round.tried) {
    const { h } = round.tokens[draft];
    if (isOnPath(round, i, draft + 1)) chance += fails * h;
    fails *= 1 - h;
  }
  return chance;
}

/** @param {Round} round @param {Token} token
 * @param {number[]} rolled @param {{ accepted: number, times: number }} tally */
export function blockRollSentence(round, token, rolled, { accepted, times }) {
  const last = firstToPass(round, rolled),
    stays = isOnPath(round, token.index, last);
  const word = stays ? 'accepted' : 'rejected',
    first = last ? `Draft ${last} passes first` : 'No draft passes';
  let verdict = `${first}: ${word}.`;
  if (!round.parents)
    verdict = stays ? `Draft ${last} is the last to pass: accepted.` : 'From it on no draft passes: rejected.';
  const same = stays === isEmitted(token) ? 'The same verdict.' : 'The verdict flips; what follows needs the models.';
  return `Every u of the block is new. ${verdict} ${same} So far ${accepted} of ${times} accepted; expected ${spokenPercent(chanceOf(round, token.index))}.`;
}
