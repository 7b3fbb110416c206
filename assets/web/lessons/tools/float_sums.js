// Adds two logits up from 64 products each, in a precision and an order. Every addition is rounded as on a machine.

import { make, makeButton } from '../../lib/dom.js';
import { format } from '../../lib/format.js';
import { numbersFrom } from '../../lib/seeded_numbers.js';
import { figure, makeNote, makeResult, meter, picker, slider } from '../widgets/widgets.js';

// Rounds to ``digits`` binary digits, ties to even; subnormal below 2^lowest, infinite above ``most``.
function nearest(x, { digits, lowest, most }) {
  if (x === 0 || !Number.isFinite(x)) return x;
  const size = Math.abs(x);
  let power = Math.floor(Math.log2(size));
  if (2 ** power > size) power--; // log2 rounds, too
  const unit = 2 ** (Math.max(power, lowest) - digits + 1),
    steps = x / unit;
  let rounded = Math.round(steps);
  if (Math.abs(steps % 1) === 0.5 && rounded % 2) rounded--;
  return Math.abs(rounded * unit) > most ? Math.sign(x) * Infinity : rounded * unit;
}
const BF16 = { digits: 8, lowest: -126, most: (2 - 2 ** -7) * 2 ** 127 },
  FP16 = { digits: 11, lowest: -14, most: 65504 };
export const bf16 = x => nearest(x, BF16);
export const fp16 = x => nearest(x, FP16);
// ``each`` rounds every partial sum, ``end`` the last one.
export const PRECISIONS = {
  fp32: { each: Math.fround, end: Math.fround },
  fp16: { each: fp16, end: fp16 },
  bf16: { each: bf16, end: bf16 },
  mixed: { each: Math.fround, end: bf16 },
};

function shuffle(row, random) {
  const mixed = [...row];
  for (let i = mixed.length - 1; i > 0; i--) {
    const k = Math.floor(random() * (i + 1));
    [mixed[i], mixed[k]] = [mixed[k], mixed[i]];
  }
  return mixed;
}

const TERMS = 64;
// [products of A, products of B]. Both hold the same 63 numbers in another arrangement, so they stay equal, but for the
// lead, when each is rounded to a precision: any later difference comes from adding. Their sum lies anywhere between two
// neighbours of bf16; at one fixed place a rounding border would always, or never, part them.
export function twoLogits(lead, seed) {
  const random = numbersFrom(seed),
    products = [Math.fround(0.32 + random() / 8)];
  while (products.length < TERMS - 1) {
    const x = Math.fround(4 * random() - 1.68);
    products.push(x, Math.fround(0.64 - x)); // around 0.32, so that 63 of them come to about 20
  }
  return [
    [...shuffle(products, random), lead],
    [...shuffle(products, random), 0],
  ];
}

const total = (row, { each }) => row.reduce((sum, x) => each(sum + each(x)), 0);
export const WAYS = {
  forwards: (row, how) => how.end(total(row, how)),
  backwards: (row, how) => how.end(total([...row].reverse(), how)),
  // A wider pass gives each block to another worker and adds up their sums.
  blocks: (row, how) =>
    how.end(
      total(
        Array.from({ length: TERMS / 8 }, (_, i) => total(row.slice(8 * i, 8 * i + 8), how)),
        how,
      ),
    ),
};

/** In how many of ``times`` shuffled orders A is ahead, both are equal, B is ahead. One order serves both logits.
 * @param {number[][]} pair */
export function orders([a, b], how, times, seed) {
  const random = numbersFrom(seed),
    counts = { ahead: 0, equal: 0, behind: 0 };
  let order = a.map((_, i) => i);
  for (let i = 0; i < times; i++) {
    order = shuffle(order, random);
    const [one, other] = [a, b].map(row =>
      WAYS.forwards(
        order.map(k => row[k]),
        how,
      ),
    );
    counts[one > other ? 'ahead' : one === other ? 'equal' : 'behind']++;
  }
  return counts;
}

export function makeFloatSums(settings, touched) {
  const TIMES = 400,
    start = settings.lead || 0.01,
    QUARTERS = 4;
  // The slider is logarithmic and the run's own gap is one of its values; its left end is a lead of zero.
  const lowest = Math.ceil(QUARTERS * Math.log10(1e-7 / start)),
    highest = Math.floor(QUARTERS * Math.log10(10 / start));
  const leadAt = place => (place < lowest ? 0 : start * 10 ** (place / QUARTERS));
  const words = x => (x === 0 ? '0' : x >= 0.001 ? x.toPrecision(2) : format(x));
  const lead = slider('True lead of A', {
    low: lowest - 1,
    high: highest,
    step: 1,
    value: 0,
    words: place => words(leadAt(place)),
  });
  const precision = picker('Precision', [
    ['bf16', 'bf16'],
    ['fp16', 'fp16'],
    ['fp32', 'fp32'],
    ['bf16, added up in fp32', 'mixed'],
  ]);
  const rows = make('div', 'sl-float-rows'),
    result = makeResult(),
    shares = ['A ahead', 'equal', 'B ahead'].map(name => ({ name, bar: meter() }));
  let seed = 1;
  const buttons = make('div', 'sl-buttons', [
    makeButton('Other numbers', () => {
      seed++;
      draw();
      touched();
    }),
  ]);

  const row = (cells, kind) =>
    make(
      'div',
      `sl-float-row ${kind}`,
      cells.map(text => make('span', '', text)),
    );
  const digits = x => (precision.value === 'fp32' ? x.toFixed(6) : String(Number(x.toFixed(6))));

  function draw() {
    const how = PRECISIONS[precision.value];
    const pair = twoLogits(leadAt(lead.value), seed);
    /** @param {number[]} sums */
    const winnerOf = ([a, b]) => (a > b ? 'A' : a === b ? 'equal' : 'B');
    rows.replaceChildren(
      row(['order', 'A', 'B', 'highest'], 'sl-float-head'),
      ...Object.entries({ forwards: 'forwards', backwards: 'backwards', blocks: 'blocks of eight' }).map(
        ([way, name]) => {
          const sums = pair.map(each => WAYS[way](each, how));
          return row(
            [name, ...sums.map(digits), winnerOf(sums)],
            winnerOf(sums) === 'A' || !leadAt(lead.value) ? '' : 'sl-float-turned',
          );
        },
      ),
    );
    const counts = orders(pair, how, TIMES, seed);
    [counts.ahead, counts.equal, counts.behind].forEach((times, i) =>
      shares[i].bar.set(shares[i].name, times / TIMES, `${times} of ${TIMES}`),
    );
    const lost = TIMES - counts.ahead;
    if (counts.equal === TIMES)
      result.textContent = `Both are equal in all ${TIMES} shuffled orders. In this program the lower token number wins, the same each time.`;
    else if (leadAt(lead.value) === 0)
      result.textContent = 'Neither really leads, so only the order of adding decides.';
    else if (lost)
      result.textContent = `A really leads, but doesn’t come out ahead in ${lost} of ${TIMES} shuffled orders.`;
    else result.textContent = `A wins in all ${TIMES} shuffled orders: no rounding reaches that far.`;
    Object.assign(result.dataset, counts);
  }
  return figure(
    'Add it up in another order',
    draw,
    touched,
    lead.row,
    precision.row,
    rows,
    ...shares.map(each => each.bar.row),
    result,
    buttons,
    makeNote(
      `Each logit is a sum of ${TERMS} products near 20. Both have the same numbers in another arrangement, so their true sums are equal except for A’s lead. ` +
        'Many devices add in fp32 and round at the end, which is the last precision in the list.',
    ),
  );
}
