// Says what another γ or another temperature would change in the run on the stage, while its slider is dragged. Of a
// temperature each guess is tested again by the trace's own p and q; of a γ tokens per pass and speed are predicted.
import { closest, setText } from '../lib/dom.js';
import { wholePercent } from '../lib/format.js';
import { interpolate } from '../lib/speedup_model.js';
import { isDrafted, isTested } from '../lib/statuses.js';

const ONLY_A_RUN = 'Only a new run can tell. Press Run.';

// p of the token ``id`` at the temperature of the run to the power of ``power``, over the candidates that the trace
// holds, the likeliest first.
function warp(id, p, { top, rest }, power) {
  if (power === Infinity) return id === top[0][0] ? 1 : 0;
  const masses = top.map(candidate => candidate[2]);
  const whole = masses.reduce((sum, mass) => sum + mass ** power, 0) + (rest > 0 ? rest ** Math.max(1, power) : 0);
  return whole ? Math.min(1, p ** power / whole) : 0;
}

// The share of the guesses that hold at another temperature, each against its own u; at the run's own that is α. Left out
// are those whose p an earlier sibling had reduced. null without odds, or where u < min(1, p/q) is not what decided: in
// blocks and typical acceptance.
export function heldAt(rounds, from, to) {
  const power = to > 0 ? from / to : Infinity,
    tested = rounds.flatMap(round => round.tokens).filter(token => isTested(token) && !token.sibling);
  const isOwn = ({ p, p_top, u, h, threshold }) =>
    p !== undefined && p_top && u !== undefined && h === undefined && threshold === undefined;
  if (!tested.length || !tested.every(isOwn)) return null;
  const held = tested.filter(token => {
    const p = warp(token.id, token.p, token.p_top, power);
    const q =
      token.q === undefined || !token.q_top || token.q_top.top[0][2] >= 1
        ? 1
        : warp(token.id, token.q, token.q_top, power);
    return q > 0 ? token.u < p / q : p > 0;
  });
  return held.length / tested.length;
}

// Tokens per pass and speed with ``gamma`` drafts a round, from how often a draft was accepted at each depth; the depths
// beyond those tested take the last one's chance. As many passes as here have nothing to check and write one token.
// null without a tested draft, for a tree, or where a server did not count them.
export function withLength(rounds, gamma, costs) {
  const accepted = [],
    tested = [];
  for (const round of rounds) {
    if (round.parents || round.counted === false) return null;
    round.tokens.filter(isDrafted).forEach((token, depth) => {
      if (!isTested(token)) return;
      tested[depth] = (tested[depth] || 0) + 1;
      accepted[depth] = (accepted[depth] || 0) + (token.status === 'rejected' ? 0 : 1);
    });
  }
  if (!tested.length) return null;
  let reached = 1,
    tokens = 1;
  for (let depth = 0; depth < gamma; depth++) {
    const at = Math.min(depth, tested.length - 1);
    reached *= accepted[at] / tested[at];
    tokens += reached;
  }
  const drafting = rounds.filter(round => round.tokens.some(isDrafted)).length / rounds.length;
  const mix = (drafted, plain) => drafting * drafted + (1 - drafting) * plain;
  const written = mix(tokens, 1);
  return {
    tokens: written,
    speedup: costs ? written / mix((costs.once ? 1 : gamma) * costs.c + interpolate(costs.v, gamma + 1), 1) : null,
  };
}

// ``box`` shows the sentence. ``about()`` gives {rounds, temperature, costs, name} of the run on the stage. The sliders
// are the page's own, beside the player.
export function makeWhatIf(box, about) {
  function temperature(value) {
    const { rounds, temperature: from, isServed } = about();
    if (!rounds.length || value === from || isServed) return ''; // a server tells no odds
    if (!from) return 'This run was greedy: its trace holds no odds for another temperature. Press Run to see one.';
    const now = heldAt(rounds, from, from),
      then = heldAt(rounds, from, value);
    if (now === null) return ONLY_A_RUN;
    const guesses = rounds.some(round => round.tokens.some(token => token.sibling))
      ? 'first guesses for a place'
      : 'tested guesses';
    const against = then === now ? ', as many as now' : ` instead of ${wholePercent(now)}`;
    return `At temperature ${value}: ${wholePercent(then)} of the ${guesses} would be accepted${against} (by this run's own p, q and u).`;
  }

  function gamma(value) {
    const { rounds, costs, isServed } = about(),
      found = value > 0 ? withLength(rounds, value, costs) : null;
    if (value === 0) return 'γ = 0 is plain decoding: 1 token per pass, 1.00×.';
    if (!found) return isServed ? '' : ONLY_A_RUN;
    const speed = found.speedup ? `, ${found.speedup.toFixed(2)}×` : '';
    return `γ = ${value}: about ${found.tokens.toFixed(1)} tokens per pass${speed} (predicted from this run's guesses).${isServed ? '' : ' Press Run to measure it.'}`;
  }

  const IN_USE = '#drawer.sl-open, :is(#gamma, #temperature):active';
  let timer = 0;
  function hideLater() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (document.querySelector(IN_USE)) hideLater();
      else hide();
    }, 8000);
  }
  document.addEventListener('input', event => {
    const control = closest(event.target, '#gamma, #temperature');
    const { value: text } = /** @type {HTMLInputElement} */ (event.target);
    const value = Number(text);
    if (!control || !box.isConnected || !Number.isFinite(value) || text === '') return;
    setText(box, control.id === 'gamma' ? gamma(value) : temperature(value));
    box.hidden = !box.textContent;
    hideLater();
  });
  document.addEventListener('pointerdown', event => {
    if (!closest(event.target, '#drawer, #gamma, #temperature')) hide();
  });
  function hide() {
    box.hidden = true;
    setText(box, '');
  }
  return { hide };
}
