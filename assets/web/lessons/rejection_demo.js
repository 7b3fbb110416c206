// Demonstrates rejection sampling at one place of the text: shape p and q, draw once or 10,000 times, break the rule.
//
// The arithmetic runs in the browser on three words; engine/sampling/rejection.py does the same for a model.

function makeRejectionDemo(settings, touched) {
  const words = ['sun', 'rain', 'wind'], MANY = 10_000;
  const start = { p: [6, 3, 1], q: [4, 4, 2] };
  const bars = ['p', 'q'].map(name => words.map((word, i) =>
    slider(`${name}(${word})`, { low: 0, high: 10, step: 0.5, value: start[name][i], words: () => '' })));
  const heat = slider('Temperature', { low: 0.3, high: 1, step: 0.05, value: settings.temperature ?? 1 });
  const RULES = [['the right rule', right], ['q taken before temperature', rawQ], ['drafts are q’s favourite', argmax], ['no residual: redraw from p', noResidual]];
  const rule = picker('Rule', settings.rules ? RULES : RULES.slice(0, 1));
  const chances = make('div', 'sl-dice-chances'), one = makeResult(), tally = make('div', 'sl-dice-tally');

  const normal = row => { const sum = row.reduce((a, b) => a + b, 0) || 1; return row.map(x => x / sum); };
  const warped = (row, temperature) => normal(row.map(x => x ** (1 / temperature)));
  const pick = row => { let left = Math.random(); for (let i = 0; i < row.length; i++) { left -= row[i]; if (left < 0) return i; } return row.findLastIndex(x => x > 0); };
  const residual = (p, q) => { const left = p.map((x, i) => Math.max(0, x - q[i])); return left.some(x => x > 1e-12) ? normal(left) : p; };

  function now() {
    const [raw, rawDraft] = bars.map(row => normal(row.map(each => each.value)));
    return { p: warped(raw, heat.value), q: warped(rawDraft, heat.value), before: rawDraft };
  }

  // Each rule gives {x: the draft, u, accept, kept, out}.
  function test({ p }, x, claimed, closing) {
    const accept = claimed[x] > 0 ? Math.min(1, p[x] / claimed[x]) : 1, u = Math.random(), kept = u < accept;
    return { x, u, accept, kept, out: kept ? x : pick(closing) };
  }
  function right(at) { return test(at, pick(at.q), at.q, residual(at.p, at.q)); }
  function rawQ(at) { return test(at, pick(at.q), at.before, residual(at.p, at.before)); }
  function argmax(at) { return test(at, at.q.indexOf(Math.max(...at.q)), at.q, residual(at.p, at.q)); }
  function noResidual(at) { return test(at, pick(at.q), at.q, at.p); }

  function sample(times, draw) {
    const seen = words.map(() => 0);
    for (let i = 0; i < times; i++) seen[draw()]++;
    return seen.map(x => x / times);
  }
  const distance = (a, b) => a.reduce((sum, x, i) => sum + Math.abs(x - b[i]), 0) / 2;
  // The distance that 99 of 100 samples of this size from p itself stay within.
  function noise(p) {
    const all = Array.from({ length: 100 }, () => distance(sample(MANY, () => pick(p)), p)).sort((a, b) => a - b);
    return all[98];
  }

  function draw() {
    const { p, q } = now(), rest = residual(p, q);
    chances.replaceChildren(...words.map((word, i) => {
      const texts = [`p ${p[i].toFixed(2)}`, `q ${q[i].toFixed(2)}`,
        q[i] > 0 ? `stays with ${Math.min(1, p[i] / q[i]).toFixed(2)}` : 'never drafted',
        `residual ${p.some((x, k) => x > q[k] + 1e-12) ? rest[i].toFixed(2) : '–'}`];
      return make('div', 'sl-dice-row', [make('span', 'sl-dice-word', word), ...texts.map(text => make('span', '', text))]);
    }));
    one.textContent = '';
    tally.hidden = true;
  }

  function drawOne() {
    const { x, u, accept, kept, out } = rule.value(now());
    one.textContent = kept ? `Draft ${words[x]}: u = ${u.toFixed(2)} is below ${accept.toFixed(2)}. It stays.`
      : `Draft ${words[x]}: u = ${u.toFixed(2)} is not below ${accept.toFixed(2)}. It goes, and ${words[out]} is drawn instead.`;
    touched();
  }

  function drawMany() {
    const at = now();
    let accepted = 0;
    const seen = sample(MANY, () => { const drawn = rule.value(at); accepted += drawn.kept; return drawn.out; });
    const away = distance(seen, at.p), band = noise(at.p), fair = away <= band;
    tally.replaceChildren(...words.flatMap((word, i) => [['wanted', at.p[i], 'sl-meter-p'], ['came out', seen[i], '']].map(([name, share, kind]) => {
      const bar = meter(kind);
      bar.set(`${word}, ${name}`, share, share.toFixed(3));
      return bar.row;
    })));
    const verdict = makeResult(fair
      ? `Distance ${away.toFixed(4)}, within the noise of honest samples (${band.toFixed(4)}): nothing tells it from the target.`
      : `Distance ${away.toFixed(4)}, beyond the noise of honest samples (${band.toFixed(4)}): this is not the target any more.`);
    verdict.dataset.fair = fair;
    tally.append(verdict, make('p', 'sl-figure-note', `${(100 * accepted / MANY).toFixed(1)} % of the drafts were kept. Of honest samples, one in a hundred lies beyond the noise, too.`));
    tally.hidden = false;
    touched();
    tally.scrollIntoView({ block: 'nearest' });
  }

  const buttons = make('div', 'sl-buttons', [makeButton('Draw one', drawOne), makeButton('Draw 10,000', drawMany)]);
  const sides = make('div', 'sl-dice-sides', bars.map(row => make('div', '', row.map(each => each.row))));
  return figure('One place, three words', draw, () => {}, sides, heat.row, ...(settings.rules ? [rule.row] : []), chances, buttons, one, tally);
}
