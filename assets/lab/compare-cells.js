// What stands in one row: by round, everything a round tested; by text, the same places of the text in every column.

const CHUNK = 8;          // tokens of a row, by text

function chip(token, shownTokens, { parted, pass }) {
  const node = make('button', `sl-token sl-${token.status}`);
  node.type = 'button';
  node.tabIndex = -1;
  const mark = make('span', 'sl-mark', MARKS[token.status] || '');
  mark.setAttribute('aria-hidden', 'true');
  const differs = parted !== undefined && token.position >= parted && !['rejected', 'discarded'].includes(token.status);
  const unseen = ` ${NAMES[token.status] || token.status}${pass ? ', a new pass' : ''}${differs ? ', not the text of run 1' : ''}`;
  node.append(mark, make('bdi', 'sl-piece', shown(token)), make('span', 'sl-unseen', unseen));
  node.classList.toggle('sl-parted', differs);
  node.classList.toggle('sl-pass', Boolean(pass));
  shownTokens.set(node, token);
  return node;
}

function cellOfRound(lane, index, shownTokens) {
  const cell = make('div', 'sl-compare-cell'), round = lane.tape.rounds[index];
  if (!round) return cell;
  const line = make('span', round.parents ? 'sl-line sl-tree' : 'sl-line');
  for (const token of round.tokens) {
    const node = chip(token, shownTokens, { parted: lane.parted });
    if (token.place) putInLane(node, token.place);
    line.append(node);
  }
  cell.append(line);
  return cell;
}

// Siblings stand below each other, as in the player.
function putInLane(node, { depth, lane, up, closes }) {
  node.style.gridColumn = depth;
  node.style.gridRow = lane + 1;
  node.style.setProperty('--up', up);
  node.dataset.joins = closes ? 'closes' : up ? 'branch' : 'on';
}

function cellOfText(lane, chunk, shownTokens) {
  const cell = make('div', 'sl-compare-cell'), tokens = lane.written.slice(chunk * CHUNK, (chunk + 1) * CHUNK);
  if (!tokens.length) return cell;
  const line = make('span', 'sl-line');
  let passes = 0;
  for (const token of tokens) {
    const pass = lane.tape.rounds[token.round].emitted[0] === token;
    if (pass) passes++;
    line.append(chip(token, shownTokens, { parted: lane.parted, pass }));
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
