// Draws a row's cells: by round, all that a round tested; by text, the same places of the text in every column.

const CHUNK = 8;          // tokens of a row, by text

function chip(token, shownTokens, { parted }, pass = false) {
  const node = makeTokenChip(token), differs = parted !== undefined && token.position >= parted && isEmitted(token);
  setStage(node, token.status, `${pass ? ', a new pass' : ''}${differs ? ', not the text of run 1' : ''}`);
  node.classList.toggle('sl-parted', differs);
  node.classList.toggle('sl-pass', pass);
  shownTokens.set(node, token);
  return node;
}

function cellOfRound(column, index, shownTokens) {
  const cell = make('div', 'sl-compare-cell'), round = column.timeline.rounds[index];
  if (!round) return cell;
  const line = make('span', round.parents ? 'sl-line sl-tree' : 'sl-line');
  line.append(...round.tokens.map(token => chip(token, shownTokens, column)));
  cell.append(line);
  return cell;
}

function cellOfText(column, chunk, shownTokens) {
  const cell = make('div', 'sl-compare-cell'), tokens = column.written.slice(chunk * CHUNK, (chunk + 1) * CHUNK);
  if (!tokens.length) return cell;
  const line = make('span', 'sl-line');
  let passes = 0;
  for (const token of tokens) {
    const pass = column.timeline.rounds[token.round].emitted[0] === token;
    if (pass) passes++;
    line.append(chip(token, shownTokens, column, pass));
  }
  cell.append(line, make('span', 'sl-compare-passes', `${passes} pass${passes === 1 ? '' : 'es'}`));
  return cell;
}

// Above a column: what ran and how fast, then its numbers and a sentence on its text.
const STATES = { waiting: 'waits for its turn', running: 'running now', stopped: 'stopped', recorded: 'recorded', ended: '' };

function nameCell(head, number) {
  const cell = make('div', 'sl-compare-cell');
  cell.setAttribute('role', 'columnheader');
  cell.append(make('span', 'sl-compare-name', `${number}: ${head.name}`));
  if (head.speedup) {
    const speedup = make('span', 'sl-compare-speedup', head.speedup);
    speedup.append(make('span', 'sl-unseen', ' the speed of plain decoding'));
    cell.append(speedup);
  }
  if (STATES[head.state]) cell.append(make('span', 'sl-compare-state', STATES[head.state]));
  return cell;
}

function factsCell(head) {
  const cell = make('div', 'sl-compare-cell'), list = make('dl');
  cell.setAttribute('role', 'cell');
  for (const [name, value] of head.facts || []) list.append(make('dt', '', name), make('dd', '', value));
  if (head.setting) cell.append(make('p', 'sl-compare-setting', head.setting));
  cell.append(list, make('p', 'sl-compare-said', head.said || ''));
  return cell;
}
