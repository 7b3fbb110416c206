// Shows what another engine's log, /metrics or answer says: α by position, τ, the best γ for given costs, and advice.

import { make } from '../../lib/dom.js';
import { percent } from '../../lib/format.js';
import { alphaFor } from '../../lib/speedup_model.js';
import { figure, makeNote, makeResult, meter, short, slider } from '../widgets/widgets.js';
import { readLog } from './log_reader.js';

/** A ``problem``, or the reading of the longest drafts with ``reached``: share of rounds that accept each position;
 * ``alphas``: α at each position; ``exact``: whether by position; ``told``: whether the rounds are.
 * @typedef {{ problem?: string, engine?: string, form?: string, tau?: number, rounds?: number, gamma?: number,
 *   perDrafted?: number, reached?: number[], alphas?: (number | null)[], exact?: boolean, told?: boolean,
 *   unused?: string[] }} Acceptance */
/** @param {string} whole @param {number} gamma used where the text does not name the rounds @returns {Acceptance} */
export function readAcceptance(whole, gamma) {
  if (!whole.trim()) return { problem: 'Paste lines of your engine’s log, its /metrics or an answer.' };
  const { readings, unused } = readLog(whole),
    found = readings.at(-1);
  if (!found)
    return { problem: unused.join(' ') || 'No acceptance found. Paste the line or the answer that names it.' };
  const told = found.rounds !== null,
    rounds = told ? found.rounds : found.drafted / gamma;
  const drafts = found.gamma ?? (found.drafted ? Math.max(1, Math.round(found.drafted / rounds)) : gamma);
  const tau = 1 + found.accepted / rounds,
    exact = found.reached.length > 0;
  const reached = exact ? found.reached : geometric(tau, drafts);
  const alphas = reached.map((share, i) => (i && !reached[i - 1] ? null : share / (i ? reached[i - 1] : 1)));
  const perDrafted = found.accepted / (found.drafted ?? rounds * drafts);
  if (readings.length > 1)
    unused.push(`The text holds ${readings.length} draft lengths or drafters; only the longest is shown.`);
  return { ...found, tau, rounds, gamma: drafts, perDrafted, reached, alphas, exact, told, unused };
}

// The shares of one α at every position that gives this τ.
const geometric = (tau, gamma) => Array.from({ length: gamma }, (_, i) => alphaFor(tau, gamma) ** (i + 1));

/** [speedup for γ = 0, 1, …], each position with its own α; beyond the known ones α is taken to remain the last.
 * @param {Acceptance} found @param {number} c @param {number} slope @param {number} most */
export function speedupsOf({ reached }, c, slope, most) {
  const last =
    reached.length > 1 && reached[reached.length - 2]
      ? reached[reached.length - 1] / reached[reached.length - 2]
      : reached[0];
  let share = 1,
    tokens = 1;
  return [
    1,
    ...Array.from({ length: most }, (_, i) => {
      share = reached[i] ?? share * last;
      tokens += share;
      return tokens / ((i + 1) * c + 1 + slope * (i + 1));
    }),
  ];
}

/** @param {Acceptance} found @param {number} best @param {number} most */
export function adviceFor({ alphas, gamma }, best, most) {
  if (alphas[0] < 0.3)
    return 'Few first drafts are accepted: check that the drafter, its chat template and the text fit this model.';
  if (best === 0) return 'At these costs no draft pays: turn drafting off for this text.';
  if (best < gamma) return `Draft ${best} instead of ${gamma}: the last drafts cost more than they save.`;
  if (best > gamma)
    return `Try ${best}${best === most ? ' or more' : ''} instead of ${gamma}: one more draft would still pay.`;
  return `γ = ${gamma} is right for these costs. Now measure against plain decoding.`;
}

export function makeAcceptanceLog(settings, touched) {
  const MOST = 16,
    words = make('textarea', '', settings.text, { rows: 4, spellcheck: false });
  const field = make('label', 'sl-text-field', [
    make('span', '', 'Lines of your engine’s log, its /metrics or an answer'),
    words,
  ]);
  const used = slider('γ in use, if the log does not say', { low: 1, high: MOST, step: 1, value: settings.gamma ?? 4 });
  const cost = slider('c, cost of one draft step', { low: 0, high: 1, step: 0.01, value: settings.c ?? 0.05 });
  const wide = slider('extra cost of each token scored', {
    low: 0,
    high: 1,
    step: 0.01,
    value: settings.slope ?? 0.05,
  });
  const result = makeResult(),
    advice = makeResult(),
    bars = make('div', ''),
    aside = makeNote();

  function draw() {
    const found = readAcceptance(words.value, used.value);
    result.textContent =
      found.problem ??
      `${found.engine}, ${found.form}: τ ${short(found.tau)}, α ${short(found.alphas[0])} for the first draft, ${percent(found.perDrafted)} of all drafts accepted.`;
    if (found.problem) {
      bars.replaceChildren();
      advice.textContent = aside.textContent = '';
      return;
    }
    const speedups = speedupsOf(found, cost.value, wide.value, MOST),
      best = speedups.indexOf(Math.max(...speedups));
    bars.replaceChildren(
      ...found.reached.slice(0, 8).map((share, i) => {
        const bar = meter('sl-meter-p'),
          alpha = found.alphas[i];
        bar.set(`position ${i + 1}`, share, `${share.toFixed(2)}, α ${alpha === null ? '–' : alpha.toFixed(2)}`);
        return bar.row;
      }),
    );
    advice.textContent = adviceFor(found, best, MOST);
    aside.textContent =
      `Best: γ = ${best}, ${short(speedups[best])} ×; γ = ${found.gamma} gives ${short(speedups[found.gamma] ?? 0)} ×. ` +
      `${found.exact ? 'A bar is the share of rounds that accepted a draft at that position.' : 'It gives no rates by position, so one α is taken for all of them.'}` +
      `${found.told ? '' : ' It doesn’t say how many rounds there were, so the γ you set is used.'} ${found.unused.join(' ')}`;
    Object.assign(result.dataset, { tau: found.tau.toFixed(3), best });
  }
  return figure(
    'Paste your engine’s log',
    draw,
    touched,
    field,
    result,
    bars,
    advice,
    cost.row,
    wide.row,
    used.row,
    aside,
  );
}
