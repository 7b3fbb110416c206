// Shows what one pass reads: who sees whom, the chances at every place, and the cache before and after a rejection.
// Rows and columns count from the last token of the text (0); draft k is row k,
// and parents[k - 1] is the row before it.

import { make, makeButton, setText } from '../../lib/dom.js';
import { figure, makeNote, makeResult, meter, picker } from '../widgets/widgets.js';
import { MEMORIES, memoryAfter } from './place_memory.js';

// Whether a row sees a column: itself and the rows it continues.
export function sees(parents, row, column) {
  while (row > column) row = parents[row - 1];
  return row === column;
}

// The accepted path, and each row's state: accepted, rejected, gone (assumes a rejected draft), branch (not taken).
export function judge(parents, rejected) {
  const rows = parents.map((_, i) => i + 1),
    path = [0];
  const tested = [];
  for (let at = 0; at !== undefined; ) {
    const children = rows.filter(row => parents[row - 1] === at);
    at = children.find(row => !rejected.has(row));
    tested.push(...children.slice(0, at === undefined ? children.length : children.indexOf(at) + 1));
    if (at !== undefined) path.push(at);
  }
  const failed = tested.filter(row => rejected.has(row)),
    last = path[path.length - 1];
  function stateOf(row) {
    if (path.includes(row)) return 'accepted';
    if (failed.includes(row)) return 'rejected';
    return failed.some(gone => sees(parents, row, gone)) ? 'gone' : 'branch';
  }
  return {
    path,
    states: ['accepted', ...rows.map(stateOf)],
    closing: failed.some(row => parents[row - 1] === last) ? 'resampled' : 'bonus',
    failed: failed.filter(row => parents[row - 1] === last),
  };
}

// The chances of the closing token: p, less the q of each draft rejected there, scaled to 1. null: nothing is left.
export function closingChances(p, offers) {
  return offers.reduce((left, q) => {
    if (!left) return null;
    const missing = Object.entries(left).map(([word, mass]) => ({ word, mass: Math.max(0, mass - (q[word] || 0)) }));
    const all = missing.reduce((sum, { mass }) => sum + mass, 0);
    return all > 1e-9 ? Object.fromEntries(missing.map(({ word, mass }) => [word, mass / all])) : null;
  }, p);
}

// ``shapes``: "chain", "tree" or both; each has the text, the drafts' words,
// parents, p of every row and q of every draft.
export function makePassPlaces(shapes, touched) {
  const NAMES = { chain: 'one after the other', tree: 'a tree, two words a place' },
    kinds = Object.keys(shapes),
    vocabulary = Object.keys(shapes[kinds[0]].p[0]);
  const shape = picker(
    'Drafts',
    kinds.map(kind => [NAMES[kind], kind]),
  );
  const memory = picker('Its memory is', MEMORIES),
    table = make('table', 'sl-places'),
    slots = make('ol', 'sl-slots', '', { 'aria-label': 'What the model remembers' });
  const knows = make('p', 'sl-places-knows', '', { id: 'sl-places-knows' }),
    gives = makeNote(),
    bars = vocabulary.map(() => meter('sl-meter-p'));
  const result = makeResult(),
    after = makeNote(),
    start = makeButton('Run the pass', () => {
      ran = !ran;
      rejected.clear();
      show();
      touched();
    });
  let now, rejected, ran, row, parts, held, built;

  const quote = index => `“${now.read[index]}”`;
  const listChances = chances =>
    vocabulary
      .filter(word => chances[word] > 5e-4)
      .map(word => `${word} ${chances[word].toFixed(2)}`)
      .join(', ');

  function build() {
    now = { ...shapes[shape.value] };
    now.read = [now.text[now.text.length - 1], ...now.words];
    now.earlier = now.text.slice(0, -1);
    [rejected, ran, row] = [new Set(), false, 0];
    const heads = [
      now.earlier.length ? make('th', '', [make('span', '', now.earlier.join(' '))], { scope: 'col' }) : '',
      ...now.read.map((word, i) => make('th', '', [make('span', '', word)], { scope: 'col', 'data-column': i })),
    ];
    parts = now.read.map((word, i) => lineOf(word, i));
    table.replaceChildren(
      make('caption', 'sl-unseen', 'Who sees whom in one pass'),
      make('thead', '', [make('tr', '', [make('td'), ...heads, make('td')])]),
      make(
        'tbody',
        '',
        parts.map(each => each.line),
      ),
    );
    show();
  }

  // Another kind of memory shows the same pass; another shape is another pass.
  function rebuild() {
    if (built === shape.value) return show();
    built = shape.value;
    build();
  }

  function lineOf(word, i) {
    const name = makeButton(`${i ? `${i} ` : ''}${word}`, () => look(i), 'sl-place-name', {
      'aria-describedby': knows.id,
      '--depth': now.read.filter((_, column) => column && column < i && sees(now.parents, i, column)).length,
    });
    const cross = i
      ? makeButton(
          '✗',
          () => {
            rejected[rejected.has(i) ? 'delete' : 'add'](i);
            look(i);
            touched();
          },
          'sl-place-cross',
          { 'aria-label': `Reject draft ${i}, ${word}`, title: `Reject draft ${i}` },
        )
      : '';
    const sightCell = yes =>
      make('td', yes ? 'sl-sees' : '', yes ? [make('i'), make('span', 'sl-unseen', 'sees it')] : '');
    const line = make('tr', '', [
      make('th', '', [name], { scope: 'row' }),
      now.earlier.length ? sightCell(true) : '',
      ...now.read.map((_, column) => sightCell(column <= i && sees(now.parents, i, column))),
      make('td', '', [cross]),
    ]);
    line.addEventListener('mouseenter', () => look(i));
    line.addEventListener('focusin', () => look(i));
    return { line, cross };
  }

  function look(index) {
    row = index;
    show();
  }

  function show() {
    const verdict = judge(now.parents, rejected),
      isJudged = ran && (rejected.size > 0 || shape.value === 'chain');
    parts.forEach(({ line, cross }, i) => {
      line.dataset.state = isJudged ? verdict.states[i] : '';
      line.classList.toggle('sl-place-now', i === row);
      if (cross) {
        cross.disabled = !ran;
        cross.setAttribute('aria-pressed', rejected.has(i));
      }
    });
    start.textContent = ran ? 'Before the pass' : 'Run the pass';
    showRow(verdict, isJudged);
    showSlots(verdict, isJudged);
    showResult(verdict, isJudged);
  }

  // What a row’s chances are for, after the pass.
  function chancesOf(state, drafts) {
    if (state === 'rejected' || state === 'gone')
      return 'It was computed for a word that has been rejected, so its numbers are useless now.';
    if (state === 'branch') return 'It is on a branch that is not taken.';
    if (!drafts.length)
      return 'The probabilities at the place after it. There’s no draft there, so they are for the bonus.';
    return `The probabilities at the place after it, to test ${drafts.map(i => `draft ${i}, ${quote(i)}`).join(', then ')}.`;
  }

  function showRow(verdict, isJudged) {
    const known = [...now.earlier, ...now.read.filter((_, column) => column <= row && sees(now.parents, row, column))];
    const drafts = now.words.map((_, i) => i + 1).filter(i => now.parents[i - 1] === row),
      state = isJudged ? verdict.states[row] : '';
    setText(knows, `Reads ${quote(row)}. Knows “${known.join(' ')}”.`);
    setText(gives, ran ? chancesOf(state, drafts) : 'Its probabilities come with the pass.');
    const isShown = ran && state !== 'rejected' && state !== 'gone';
    const chance = word => now.p[row][word] || 0;
    vocabulary.forEach((word, i) =>
      bars[i].set(word, isShown ? chance(word) : 0, isShown ? chance(word).toFixed(2) : '–'),
    );
  }

  function showSlots({ path, states }, isJudged) {
    const slot = ([word, state, words]) =>
      make('li', '', [word, make('span', 'sl-unseen', `, ${words}`)], { 'data-state': state, title: words });
    const judgement = isJudged ? { path, states } : {};
    held = memoryAfter(memory.value, { ...now, ran, ...judgement });
    slots.replaceChildren(...held.slots.map(slot));
  }

  function showResult({ path, states, closing, failed }, isJudged) {
    const last = path[path.length - 1],
      chances = closingChances(
        now.p[last],
        failed.map(i => now.q[i - 1]),
      ),
      behind = states.filter(state => state === 'gone').length;
    const all = now.read.length,
      accepted = path.slice(1).map(quote).join(' ');
    const verdict = accepted ? `Accepted: ${accepted}.` : 'Nothing is accepted.',
      gone = behind ? `${behind} more ${behind === 1 ? 'row assumes' : 'rows assume'} a token that is gone.` : '';
    if (!ran) setText(result, `${all} rows are ready, and the pass reads them at once.`);
    else if (!isJudged)
      setText(result, `${all} rows, ${all} sets of probabilities. Each row sees its own branch alone.`);
    else if (closing === 'bonus' && !rejected.size)
      setText(result, `${all} rows, ${all} sets of probabilities: ${all - 1} for the drafts, one for the bonus.`);
    else setText(result, `${verdict} ${gone}`);
    setText(
      after,
      !isJudged
        ? 'Press ✗ next to a draft to reject it.'
        : `${closing === 'bonus' ? 'Bonus' : 'Resampled'}: ${chances ? listChances(chances) : 'nothing is left to draw'}. ${held.says}`,
    );
    Object.assign(result.dataset, { path: path.join(' '), closing, chances: chances ? JSON.stringify(chances) : '' });
  }

  return figure(
    'Who sees whom',
    rebuild,
    touched,
    ...(kinds.length > 1 ? [shape.row] : []),
    make('div', 'sl-buttons', [start]),
    table,
    knows,
    gives,
    ...bars.map(bar => bar.row),
    result,
    make('h5', 'sl-slots-name', 'What the model remembers of it'),
    memory.row,
    slots,
    after,
    makeNote('A dot: this row may look at that token. This model of three words uses only the last one.'),
  );
}
