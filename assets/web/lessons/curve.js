// Draws the idealised speedup for every draft length, from α, c and the cost of scoring several tokens.

function makeCurve(settings, touched) {
  const MOST = 10, chart = make('div'), result = makeResult(), aside = make('p', 'sl-figure-note');
  const alpha = slider('α, chance that a draft stays', { low: 0, high: 0.98, step: 0.01, value: settings.alpha ?? 0.6 });
  const cost = slider('c, cost of one draft step', { low: 0, high: 1, step: 0.01, value: settings.c ?? 0.1 });
  const wide = slider('extra cost of each token scored', { low: 0, high: 1, step: 0.01, value: settings.slope ?? 0.08 });

  function draw() {
    const v = { 1: 1, 2: 1 + wide.value };
    const speedups = Array.from({ length: MOST + 1 }, (_, gamma) => idealisedSpeedup(alpha.value, gamma, cost.value, v));
    const best = speedups.indexOf(Math.max(...speedups)), tokens = expectedTokens(alpha.value, best);
    chart.replaceChildren(columns(speedups, { marked: best, level: 1, top: Math.max(1.5, ...speedups), name: `Speedup for draft lengths 0 to ${MOST}; best at ${best}` }));
    result.textContent = best
      ? `Best: γ = ${best}, ${short(speedups[best])} × as fast, ${short(tokens)} tokens a round.`
      : 'Best: γ = 0. Here no draft pays.';
    aside.textContent = `A round of γ = ${best} costs ${short(best * cost.value)} for drafting and ${short(1 + wide.value * best)} for scoring, in plain steps.`;
  }
  return figure('Speedup for every draft length γ', draw, touched, alpha.row, cost.row, wide.row, chart, result, aside);
}
