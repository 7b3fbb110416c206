// Demonstrates rejection sampling at one place of the text: shape p and q, draw once or many times, break the rule.

import { make, makeButton } from '../../lib/dom.js';
import { percent } from '../../lib/format.js';
import { figure, makeNote, makeResult, meter, picker, slider } from '../widgets/widgets.js';
import { normal, pick, RULES, residual, typical, warp } from './draft_rules.js';

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
  const temperature = slider('Temperature', { low: 0.3, high: 1, step: 0.05, value: settings.temperature ?? 1 });
  const rule = picker(
    'Rule',
    settings.rules ? RULES : RULES.slice(0, 1),
    Math.max(
      0,
      RULES.findIndex(([, , name]) => name === settings.rule),
    ),
  );
  const threshold = slider('Threshold ε of typical acceptance', { low: 0, high: 0.2, step: 0.01, value: 0.09 });
  const chances = make('div', 'sl-rejection-chances'),
    one = makeResult(),
    tally = make('div', 'sl-rejection-tally');

  function now() {
    const [raw, rawDraft] = bars.map(row => normal(row.map(each => each.value)));
    return {
      p: warp(raw, temperature.value),
      q: warp(rawDraft, temperature.value),
      before: rawDraft,
      threshold: threshold.value,
    };
  }

  function sample(times, draw) {
    const seen = words.map(() => 0);
    for (let i = 0; i < times; i++) seen[draw()]++;
    return seen.map(x => x / times);
  }
  const distance = (a, b) => a.reduce((sum, x, i) => sum + Math.abs(x - b[i]), 0) / 2;
  // The second-highest distance of 200 honest samples from p: a new one is beyond it with chance 2/201. It is measured
  // at 10,000 draws, once for each p, and scaled, because it shrinks with the square root of their number.
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
        return make('div', 'sl-rejection-row', [
          make('span', 'sl-rejection-word', word),
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
    const not = kept ? '' : 'not ';
    let test = 'no test this time.';
    if (enough !== undefined) test = `p = ${at.p[x].toFixed(2)} is ${not}above ${enough.toFixed(2)}.`;
    else if (target !== undefined) test = `the target draws ${words[target]}.`;
    else if (u !== undefined) test = `u = ${u.toFixed(2)} is ${not}below ${accept.toFixed(2)}.`;
    one.textContent = `The draft is ${words[x]}: ${test} ${kept ? 'It is accepted.' : `It is rejected, and ${words[out]} comes instead.`}`;
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
        ? `Distance ${away.toFixed(4)}, within the noise of honest samples (${band.toFixed(4)}): this count can’t tell it from the target.`
        : `Distance ${away.toFixed(4)}, beyond the noise of honest samples (${band.toFixed(4)}): chance alone would hardly do this. Something is wrong with the rule.`,
    );
    Object.assign(verdict.dataset, { fair, accepted: (accepted / times).toFixed(4) });
    tally.append(
      verdict,
      makeNote(
        `${percent(accepted / times)} of the drafts were accepted. Even a correct rule lands outside the noise once in a hundred times.`,
      ),
    );
    tally.hidden = false;
    touched();
    tally.scrollIntoView({ block: 'nearest' });
  }

  // A row of zeros is not a distribution, so the last slider of a row that reaches 0 goes back one step.
  function holdAboveZero() {
    for (const row of bars) if (row.every(each => each.value === 0)) row[indexOfMoved(row)].value = 0.5;
  }
  const indexOfMoved = row =>
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
    'sl-rejection-sides',
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
    temperature.row,
    ...(settings.rules ? [rule.row, threshold.row] : []),
    chances,
    buttons,
    one,
    tally,
  );
}
