// Shows how many tokens came at once, as grey bars, and what would hide that. The sums are below, apart from the page.

import { make } from '../../lib/dom.js';
import { figure, makeNote, makeResult, picker, short } from '../widgets/widgets.js';

// Grey bars, one for each burst; without words.
export const burstBars = (bursts, name) =>
  make(
    'div',
    'sl-bursts',
    bursts.map(size => make('i', '', '', { '--at': size })),
    { role: 'img', 'aria-label': `${name}: ${bursts.join(', ')}` },
  );

const LUMP = 6;
// What a listener sees of an answer under a defence, and its price: ``sent``, how many times the data, and ``wait``,
// how many passes a token is held back on average.
export function defend(bursts, how, largest) {
  const tokens = bursts.reduce((a, b) => a + b, 0),
    arrived = bursts.flatMap((size, pass) => Array.from({ length: size }, () => pass));
  if (how === 'padded') return { seen: bursts.map(() => largest), sent: (bursts.length * largest) / tokens, wait: 0 };
  if (how === 'lumps') {
    const leaves = arrived.map((_, i) => arrived[Math.min(tokens - 1, LUMP * Math.floor(i / LUMP) + LUMP - 1)]);
    const wait = leaves.reduce((sum, at, i) => sum + at - arrived[i], 0) / tokens;
    const seen = Array.from({ length: Math.ceil(tokens / LUMP) }, () => LUMP); // the last is filled up
    return { seen, sent: (LUMP * seen.length) / tokens, wait };
  }
  if (how === 'single') {
    // One token in the time of each pass: nothing is left of the drafts' speed.
    return {
      seen: arrived.map(() => 1),
      sent: 1,
      wait: arrived.reduce((sum, at, i) => sum + i - at, 0) / tokens,
    };
  }
  return { seen: bursts, sent: 1, wait: 0 };
}

const DEFENCES = [
  ['none', 'open'],
  ['pad every packet to the largest', 'padded'],
  [`hold back, send ${LUMP} tokens at a time`, 'lumps'],
  ['send one token in the time of a pass', 'single'],
];

// ``answers``: by the words of a prompt, the bursts of its answer.
export function makeBursts({ answers }, touched) {
  const prompts = Object.keys(answers),
    order = [...prompts].sort((a, b) => answers[b].length - answers[a].length), // the most passes first
    largest = Math.max(...Object.values(answers).flat());
  const letters = order.map((_, i) => 'ABCDEFGH'[i]);
  const rows = order.map((prompt, i) => ({
    prompt,
    guess: picker(`Answer ${letters[i]} is for`, [['–', ''], ...prompts.map(words => [words, words])]),
    box: make('div', 'sl-bursts-box'),
    mark: make('span', 'sl-option-mark'),
  }));
  const defence = picker('Defence', DEFENCES),
    result = makeResult(),
    price = makeNote();

  function draw() {
    const seen = rows.map(({ prompt }) => defend(answers[prompt], defence.value, largest));
    rows.forEach(({ box }, i) => box.replaceChildren(burstBars(seen[i].seen, `Answer ${letters[i]}`)));
    const given = rows.filter(({ guess }) => guess.value),
      right = rows.filter(({ guess, prompt }) => guess.value === prompt);
    const isOver = given.length === rows.length;
    for (const { guess, prompt, mark } of rows)
      mark.textContent = isOver ? (guess.value === prompt ? '✓ right' : '✗ not this one') : '';
    result.textContent = isOver
      ? `${right.length} of ${rows.length} right, without one letter of text.`
      : `Match every answer to a prompt: ${given.length} of ${rows.length}.`;
    const tokens = rows.map(({ prompt }) => answers[prompt].reduce((a, b) => a + b, 0)),
      all = tokens.reduce((a, b) => a + b, 0);
    const mean = name => seen.reduce((sum, each, i) => sum + each[name] * tokens[i], 0) / all;
    price.textContent =
      defence.value === 'open'
        ? 'Each bar is what one pass sent: the taller, the more tokens.'
        : `Price: ${short(mean('sent'))} times the data, and a token waits ${short(mean('wait'))} passes on average.` +
          (defence.value === 'single'
            ? ' The bars give nothing away now, but the speed of the drafts is lost, too.'
            : defence.value === 'lumps'
              ? ' The bars are equal, but the time between them still gives something away.'
              : ' The bars are equal, but their number still tells how many passes it took.');
    Object.assign(result.dataset, {
      right: right.length,
      sent: mean('sent').toFixed(4),
      wait: mean('wait').toFixed(4),
    });
  }
  return figure(
    'What the wire tells',
    draw,
    touched,
    ...rows.flatMap(({ box, guess, mark }) => [box, make('div', 'sl-bursts-guess', [guess.row, mark])]),
    result,
    defence.row,
    price,
    makeNote('Recorded answers. You don’t see their words, only how many tokens each pass sent.'),
  );
}
