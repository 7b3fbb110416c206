// Shows which experts of a mixture a pass reads: the more tokens of all users, the
// more of them, until all are read anyway.

import { make } from '../../lib/dom.js';
import { figure, makeNote, makeResult, meter, short, slider } from '../widgets/widgets.js';

// Qwen3-30B-A3B in numbers: experts, how many each token uses, and billions of weights in experts and outside of them.
export const EXPERTS = { all: 128, used: 8, within: 29, outside: 1.5 };

// The expected share of experts that tokens read which choose independently.
const expertsRead = tokens => 1 - (1 - EXPERTS.used / EXPERTS.all) ** tokens;

// Billions of weights that a pass over ``tokens`` reads, and the part of all weights that one token reads.
export const weightsRead = tokens => EXPERTS.outside + EXPERTS.within * expertsRead(tokens);
export const ONE_TOKEN = weightsRead(1) / (EXPERTS.outside + EXPERTS.within);

export function makeExperts(settings, touched) {
  const users = slider('Users at once', { low: 1, high: 256, step: 1, value: 1 }),
    drafts = slider('Drafts for each', { low: 0, high: 8, step: 1, value: 0 });
  const cells = Array.from({ length: EXPERTS.all }, () => make('i')),
    grid = make('div', 'sl-experts', cells, { role: 'img' });
  const without = meter('sl-meter-p'),
    withDrafts = meter(),
    result = makeResult();
  // Each token draws its experts in an order of its own, the same for the same token,
  // so that a slider only adds to them.
  function order(token) {
    let x = ((token + 1) * 2654435761) >>> 0;
    return () => {
      x = (x * 1664525 + 1013904223) >>> 0;
      return x / 2 ** 32;
    };
  }
  function choice(token) {
    const next = order(token);
    const chosen = new Set();
    while (chosen.size < EXPERTS.used) chosen.add(Math.floor(next() * EXPERTS.all));
    return chosen;
  }

  function draw() {
    const plain = new Set(),
      extra = new Set();
    for (let user = 0; user < users.value; user++) {
      for (let place = 0; place <= drafts.value; place++)
        for (const expert of choice(9 * user + place)) (place ? extra : plain).add(expert);
    }
    cells.forEach((cell, i) => {
      cell.dataset.read = plain.has(i) ? 'text' : extra.has(i) ? 'draft' : '';
    });
    const added = [...extra].filter(expert => !plain.has(expert)).length,
      tokens = users.value * (drafts.value + 1);
    grid.setAttribute(
      'aria-label',
      `${plain.size + added} of ${EXPERTS.all} experts are read, ${added} of them for drafts alone`,
    );
    const few = weightsRead(users.value),
      many = weightsRead(tokens),
      all = EXPERTS.within + EXPERTS.outside;
    without.set('without drafts', few / all, `${short(few)} billion`);
    withDrafts.set('with drafts', many / all, `${short(many)} billion`);
    result.textContent = `${plain.size + added} of ${EXPERTS.all} experts. ${drafts.value ? `Drafts make the pass read ${short(many / few)} times as much.` : 'Add drafts.'}`;
    Object.assign(result.dataset, { ratio: (many / few).toFixed(4), read: plain.size + added });
  }
  return figure(
    'Which experts does a pass read?',
    draw,
    touched,
    users.row,
    drafts.row,
    grid,
    without.row,
    withDrafts.row,
    result,
    makeNote(
      'One layer of Qwen3-30B-A3B: 8 of 128 experts for each token, chosen independently here. Blue: read for text. Orange: read for drafts alone. Bars: the weights that are read on average.',
    ),
  );
}
