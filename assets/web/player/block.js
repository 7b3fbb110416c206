// Shows how the drafts of a block were decided on together: a line a draft, and the block rolled anew.

const draftsOf = round => round.tokens.filter(isDrafted);
const rollBlock = round => draftsOf(round).map(() => Math.random());
// The number of drafts accepted with these uniforms: up to the last one that passes.
const lastToPass = (round, us) => draftsOf(round).findLastIndex((draft, i) => us[i] < draft.h) + 1;

const COLUMNS = [['draft', ''], ['min(1, p/q)', 'Its chance alone'], ['pᵢ', 'The products p/q so far, each cut at 1'],
  ['hᵢ', 'The chance that the block ends here, if no later draft passes'], ['uᵢ', 'It passes if uᵢ < hᵢ'], ['', '']];

// ``rolled``: the u of each draft, or null for the recorded ones.
function blockNode(round, token, rolled) {
  const drafts = draftsOf(round), us = rolled ?? drafts.map(draft => draft.u), last = lastToPass(round, us);
  const head = make('tr', '', COLUMNS.map(([word, title]) => make('th', '', word, title ? { title } : {})));
  const rows = drafts.map((draft, i) => make('tr', draft === token ? 'sl-here' : '', [
    make('td', '', [`${STATUSES[draft.status].mark} `, make('bdi', 'sl-name', shown(draft))]),
    ...[draft.accept, draft.running, draft.h, us[i]].map(number => make('td', '', number === undefined ? '' : format(number))),
    make('td', '', i + 1 === last ? 'passes, last' : us[i] < draft.h ? 'passes' : 'fails'),
  ]));
  return make('div', 'sl-block', [make('table', '', [make('thead', '', [head]), make('tbody', '', rows)])]);
}

// The chance that draft i or a later one passes.
function chanceOf(round, i) {
  return 1 - draftsOf(round).slice(i).reduce((fails, { h }) => fails * (1 - h), 1);
}

function blockRollSentence(round, token, rolled, { accepted, times }) {
  const last = lastToPass(round, rolled), stays = last > token.index;
  const verdict = stays ? `Draft ${last} is the last to pass: accepted.` : 'From it on no draft passes: rejected.';
  const same = stays === isEmitted(token) ? 'The same verdict.' : 'The verdict flips; what follows needs the models.';
  return `Every u of the block is new. ${verdict} ${same} So far ${accepted} of ${times} accepted; expected ${spoken(chanceOf(round, token.index))}.`;
}
