// Stacks accepted drafts and replacements, draw after draw, against p: with the
// residual they fill it, with p they overshoot.

import { make, makeButton } from '../../lib/dom.js';
import { figure, makeNote, makeResult, picker, slider } from '../widgets/widgets.js';
import { softmax } from './temperature.js';

// The chance of each word to come out: accepted as a draft, and drawn in place of a
// rejected one. ``from``: residual or p.
export function outcome(p, q, from) {
  const accepted = p.map((x, i) => Math.min(x, q[i])),
    rejected = 1 - accepted.reduce((a, b) => a + b, 0);
  const missing = p.map((x, i) => Math.max(0, x - q[i])),
    all = missing.reduce((a, b) => a + b, 0);
  const source = from === 'p' ? p : missing.map(x => (all ? x / all : 0));
  return { accepted, replaced: source.map(x => rejected * x) };
}

// ``p``, ``q``: the two sets of chances at temperature 1, by word.
export function makeOverlap({ p: targets, q: offers }, touched) {
  const words = Object.keys(targets);
  const logs = row => words.map(word => Math.log(row[word]));
  const temperature = slider('Temperature', { low: 0, high: 2, step: 0.1, value: 1 });
  const drafter = picker('Drafter', [
    ['draws from q', 'sampled'],
    ['greedy or a copy: one word, q = 1', 'certain'],
  ]);
  const source = picker('Replaced', [
    ['from the residual', 'residual'],
    ['from p (a mistake)', 'p'],
  ]);
  const columnsOf = words.map(word => ({
    q: make('i', 'sl-stack-q'),
    kept: make('i', 'sl-stack-accepted'),
    new: make('i', 'sl-stack-replaced'),
    line: make('i', 'sl-stack-p'),
    name: make('span', '', word),
  }));
  const stack = make(
    'div',
    'sl-stack',
    columnsOf.map(each =>
      make('div', 'sl-stack-column', [
        make('div', 'sl-stack-bars', [each.q, each.kept, each.new, each.line]),
        each.name,
      ]),
    ),
    { role: 'img' },
  );
  const result = makeResult(),
    aside = makeNote(),
    one = makeResult();
  let counts;

  function now() {
    const p = softmax(logs(targets), temperature.value),
      drawn = softmax(logs(offers), temperature.value),
      first = drawn.indexOf(Math.max(...drawn));
    return { p, q: drafter.value === 'certain' ? drawn.map((_, i) => Number(i === first)) : drawn };
  }
  function pick(row) {
    let left = Math.random() * row.reduce((a, b) => a + b, 0);
    return row.findIndex(x => {
      left -= x;
      return left < 0;
    });
  }

  function draws(times) {
    const { p, q } = now(),
      { replaced } = outcome(p, q, source.value);
    for (let i = 0; i < times; i++) {
      const x = pick(q),
        stays = Math.random() < Math.min(1, p[x] / q[x]),
        out = stays ? x : pick(replaced);
      counts[stays ? 'accepted' : 'replaced'][out]++;
      counts.all++;
      one.textContent =
        times === 1
          ? `The draft ${words[x]} is ${stays ? 'accepted.' : `rejected, and ${words[out]} comes instead.`}`
          : '';
    }
    show();
    touched();
  }

  function restart() {
    counts = { all: 0, accepted: words.map(() => 0), replaced: words.map(() => 0) };
    one.textContent = '';
    show();
  }

  function show() {
    const { p, q } = now();
    const share = x => (counts.all ? x / counts.all : 0);
    const top = 1.12 * Math.max(...p, ...q);
    const percentOf = x => `${Math.min(100, (100 * x) / top)}%`;
    columnsOf.forEach((each, i) => {
      const kept = share(counts.accepted[i]),
        added = share(counts.replaced[i]);
      each.q.style.height = percentOf(q[i]);
      each.q.style.setProperty('--fits', `${q[i] ? Math.min(100, (100 * p[i]) / q[i]) : 0}%`); // of the bar
      each.kept.style.height = percentOf(kept);
      Object.assign(each.new.style, { bottom: percentOf(kept), height: percentOf(added) });
      each.line.style.bottom = percentOf(p[i]);
      each.name.textContent = `${words[i]}: p ${p[i].toFixed(2)}, out ${counts.all ? (kept + added).toFixed(2) : '–'}`;
    });
    stack.setAttribute('aria-label', columnsOf.map(each => each.name.textContent).join('; '));
    const { accepted, replaced } = outcome(p, q, source.value),
      over = accepted.map((x, i) => x + replaced[i] - p[i]),
      worst = over.indexOf(Math.max(...over));
    const chance = accepted.reduce((a, b) => a + b, 0);
    result.textContent = `Σ min(p, q) = ${chance.toFixed(2)}: that many drafts are accepted. ${counts.all ? `Counted in ${counts.all.toLocaleString('en')} draws: ${share(counts.accepted.reduce((a, b) => a + b, 0)).toFixed(2)}.` : ''}`;
    aside.textContent =
      over[worst] > 0.005
        ? `${words[worst]} will overshoot by ${over[worst].toFixed(2)}: it already got its full share from accepted drafts, and now it gets more.`
        : 'Blue: accepted drafts. Yellow: replacements. Together they settle at the line, which is p. Grey: q, hatched where it offers too much.';
    Object.assign(result.dataset, { chance: chance.toFixed(4), over: over[worst].toFixed(4) });
  }

  const buttons = make('div', 'sl-buttons', [
    makeButton('Draw one', () => draws(1)),
    makeButton('Draw 200', () => draws(200)),
    makeButton('Start over', restart),
  ]);
  return figure(
    'What is accepted, what is replaced',
    restart,
    touched,
    temperature.row,
    drafter.row,
    source.row,
    buttons,
    stack,
    one,
    result,
    aside,
  );
}
