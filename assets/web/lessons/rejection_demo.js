// Demonstrates rejection sampling at one place of the text: shape p and q, draw once or many times, break the rule.
//
// The arithmetic runs in the browser on three words; engine/sampling/rejection.py does the same for a model.

import { make, makeButton } from '../lib/dom.js';
import { figure, makeResult, meter, picker, slider } from './widgets.js';

export function makeRejectionDemo(settings, touched) {
  const words = ['sun', 'rain', 'wind'],
    MANY = 10_000,
    MILLION = 1_000_000;
  const start = { p: [6, 3, 1], q: [4, 4, 2] };
  const bars = ['p', 'q'].map(name =>
    words.map((word, i) =>
      slider(`${name}(${word})`, { low: 0, high: 10, step: 0.5, value: start[name][i], words: () => '' }),
    ),
  );
  const heat = slider('Temperature', { low: 0.3, high: 1, step: 0.05, value: settings.temperature ?? 1 });
  const RULES = [
    ['the right rule', right, 'right'],
    ['favourite, tested with q = 1', certain, 'certain'],
    ['favourite, accepted if p draws it too', match, 'match'],
    ['q taken before temperature', rawQ, 'raw'],
    ['favourite, tested as if drawn', argmax, 'argmax'],
    ['no residual: redraw from p', noResidual, 'redraw'],
    ['one draft in 100 accepted untested', untested, 'rare'],
    ['typical acceptance: lossy on purpose', typical, 'typical'],
  ];
  const rule = picker(
    'Rule',
    settings.rules ? RULES : RULES.slice(0, 1),
    Math.max(
      0,
      RULES.findIndex(([, , name]) => name === settings.rule),
    ),
  );
  const threshold = slider('Threshold ε of typical acceptance', { low: 0, high: 0.5, step: 0.01, value: 0.09 });
  const chances = make('div', 'sl-dice-chances'),
    one = makeResult(),
    tally = make('div', 'sl-dice-tally');

  const normal = row => {
    const sum = row.reduce((a, b) => a + b, 0) || 1;
    return row.map(x => x / sum);
  };
  const warped = (row, temperature) => normal(row.map(x => x ** (1 / temperature)));
  const pick = row => {
    let left = Math.random();
    for (let i = 0; i < row.length; i++) {
      left -= row[i];
      if (left < 0) return i;
    }
    return row.findLastIndex(x => x > 0);
  };
  const residual = (p, q) => {
    const left = p.map((x, i) => Math.max(0, x - q[i]));
    return left.some(x => x > 1e-12) ? normal(left) : p;
  };

  function now() {
    const [raw, rawDraft] = bars.map(row => normal(row.map(each => each.value)));
    return { p: warped(raw, heat.value), q: warped(rawDraft, heat.value), before: rawDraft };
  }

  // Each rule gives {x: the draft, u, accept, kept, out}.
  function test({ p }, x, claimed, closing) {
    const accept = claimed[x] > 0 ? Math.min(1, p[x] / claimed[x]) : 1,
      u = Math.random(),
      kept = u < accept;
    return { x, u, accept, kept, out: kept ? x : pick(closing) };
  }
  function right(at) {
    return test(at, pick(at.q), at.q, residual(at.p, at.q));
  }
  function rawQ(at) {
    return test(at, pick(at.q), at.before, residual(at.p, at.before));
  }
  const favourite = row => row.indexOf(Math.max(...row));
  const oneHot = x => words.map((word, i) => Number(i === x));
  function argmax(at) {
    return test(at, favourite(at.q), at.q, residual(at.p, at.q));
  }
  function certain(at) {
    const x = favourite(at.q);
    return test(at, x, oneHot(x), residual(at.p, oneHot(x)));
  }
  function match(at) {
    const x = favourite(at.q),
      drawn = pick(at.p);
    return { x, target: drawn, kept: drawn === x, out: drawn };
  }
  function noResidual(at) {
    return test(at, pick(at.q), at.q, at.p);
  }
  function untested(at) {
    if (Math.random() >= 0.01) return right(at);
    const x = pick(at.q);
    return { x, kept: true, out: x };
  }

  // Medusa, 2024: accepted if p is likely enough, however often q drafts it. δ = 0.3 is its default.
  function typical({ p, q }) {
    const x = pick(q),
      entropy = -p.reduce((sum, each) => sum + (each > 0 ? each * Math.log(each) : 0), 0);
    const enough = Math.min(threshold.value, 0.3 * Math.exp(-entropy)),
      kept = p[x] > enough;
    return { x, enough, kept, out: kept ? x : favourite(p) };
  }

  function sample(times, draw) {
    const seen = words.map(() => 0);
    for (let i = 0; i < times; i++) seen[draw()]++;
    return seen.map(x => x / times);
  }
  const distance = (a, b) => a.reduce((sum, x, i) => sum + Math.abs(x - b[i]), 0) / 2;
  // The second-highest distance of 200 honest samples from p: a new one is beyond it with chance 2/201. It is measured at
  // 10,000 draws, once for each p, and scaled, because it shrinks with the square root of their number.
  let measured = { p: '', band: 0 };
  function noise(p, times) {
    if (measured.p !== String(p)) measured = { p: String(p), band: bandAround(p) };
    return measured.band * Math.sqrt(MANY / times);
  }
  function bandAround(p) {
    const all = Array.from({ length: 200 }, () =>
      distance(
        sample(MANY, () => pick(p)),
        p,
      ),
    ).sort((a, b) => a - b);
    return all[198];
  }

  function draw() {
    const { p, q } = now(),
      rest = residual(p, q);
    chances.replaceChildren(
      ...words.map((word, i) => {
        const texts = [
          `p ${p[i].toFixed(2)}`,
          `q ${q[i].toFixed(2)}`,
          q[i] > 0 ? `accepted ${Math.min(1, p[i] / q[i]).toFixed(2)}` : 'never drafted',
          `residual ${p.some((x, k) => x > q[k] + 1e-12) ? rest[i].toFixed(2) : '–'}`,
        ];
        return make('div', 'sl-dice-row', [
          make('span', 'sl-dice-word', word),
          ...texts.map(text => make('span', '', text)),
        ]);
      }),
    );
    threshold.row.hidden = rule.value !== typical;
    one.textContent = '';
    tally.hidden = true;
  }

  function drawOne() {
    const at = now(),
      { x, u, accept, target, enough, kept, out } = rule.value(at);
    const test =
      enough !== undefined
        ? `p = ${at.p[x].toFixed(2)} is ${kept ? '' : 'not '}above ${enough.toFixed(2)}.`
        : target !== undefined
          ? `the target draws ${words[target]}.`
          : u === undefined
            ? 'no test this time.'
            : `u = ${u.toFixed(2)} is ${kept ? '' : 'not '}below ${accept.toFixed(2)}.`;
    one.textContent = `Draft ${words[x]}: ${test} ${kept ? 'It is accepted.' : `It is rejected, and ${words[out]} comes instead.`}`;
    touched();
  }

  function drawMany(times) {
    const at = now();
    let accepted = 0;
    const seen = sample(times, () => {
      const drawn = rule.value(at);
      accepted += drawn.kept;
      return drawn.out;
    });
    const away = distance(seen, at.p),
      band = noise(at.p, times),
      fair = away <= band;
    tally.replaceChildren(
      ...words.flatMap((word, i) =>
        [
          ['wanted', at.p[i], 'sl-meter-p'],
          ['came out', seen[i], ''],
        ].map(([name, share, kind]) => {
          const bar = meter(kind);
          bar.set(`${word}, ${name}`, share, share.toFixed(3));
          return bar.row;
        }),
      ),
    );
    const verdict = makeResult(
      fair
        ? `Distance ${away.toFixed(4)}, within the noise of honest samples (${band.toFixed(4)}): this count cannot tell it from the target.`
        : `Distance ${away.toFixed(4)}, beyond the noise of honest samples (${band.toFixed(4)}): this is hardly the target any more.`,
    );
    Object.assign(verdict.dataset, { fair, accepted: (accepted / times).toFixed(4) });
    tally.append(
      verdict,
      make(
        'p',
        'sl-figure-note',
        `${((100 * accepted) / times).toFixed(1)} % of the drafts were accepted. Of honest samples, one in a hundred lies beyond the noise, too.`,
      ),
    );
    tally.hidden = false;
    touched();
    tally.scrollIntoView({ block: 'nearest' });
  }

  // A row of zeros is not a distribution, so the last slider of a row that reaches 0 goes back one step.
  function holdAboveZero() {
    for (const row of bars) if (row.every(each => each.value === 0)) row[moved(row)].value = 0.5;
  }
  const moved = row =>
    Math.max(
      0,
      row.findIndex(each => each.row.contains(document.activeElement)),
    );

  const many = settings.rules ? [MANY, MILLION] : [MANY];
  const buttons = make('div', 'sl-buttons', [
    makeButton('Draw one', drawOne),
    ...many.map(times => makeButton(`Draw ${times.toLocaleString('en')}`, () => drawMany(times))),
  ]);
  const sides = make(
    'div',
    'sl-dice-sides',
    bars.map(row =>
      make(
        'div',
        '',
        row.map(each => each.row),
      ),
    ),
  );
  sides.addEventListener('input', holdAboveZero);
  return figure(
    'One place, three words',
    draw,
    () => {},
    sides,
    heat.row,
    ...(settings.rules ? [rule.row, threshold.row] : []),
    chances,
    buttons,
    one,
    tally,
  );
}
