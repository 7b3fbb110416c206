// Models many users on one device. A pass costs the same until the arithmetic is full; then it grows with the tokens.

function makeBatching(settings, touched) {
  const users = slider('Users at once', { low: 1, high: 256, step: 1, value: 1 });
  const full = slider('Tokens a pass scores for free', { low: 8, high: 512, step: 8, value: 128 });
  const gamma = slider('γ, tokens drafted', { low: 0, high: 8, step: 1, value: 4 });
  const alpha = slider('α, chance to be accepted', { low: 0, high: 0.98, step: 0.01, value: 0.7 });
  const plain = meter(), drafted = meter(), result = makeResult();
  const time = tokens => Math.max(1, tokens / full.value);

  function draw() {
    const without = users.value / time(users.value);
    const wide = users.value * (gamma.value + 1), withDrafts = users.value * expectedTokens(alpha.value, gamma.value) / time(wide);
    const top = Math.max(without, withDrafts), gain = withDrafts / without;
    plain.set('plain', without / top, `${short(without)} per step`);
    drafted.set('with drafts', withDrafts / top, `${short(withDrafts)} per step`);
    result.textContent = gain >= 1.005 ? `Drafting gives ${short(gain)} × as many tokens.`
      : gain > 0.995 ? 'Drafting changes nothing here.' : `Drafting slows everybody down: ${short(gain)} × as many tokens.`;
  }
  return figure('The same device, a crowd of users', draw, touched, users.row, gamma.row, alpha.row, full.row, plain.row, drafted.row, result,
    make('p', 'sl-figure-note', 'A model, not a measurement. Drafts cost nothing here, and texts are short, so that their caches do not count.'));
}
