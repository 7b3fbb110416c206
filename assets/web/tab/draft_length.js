// Decides how many tokens each round drafts, as engine/decoding/draft_length.py does for drafts whose keys are known
// before they are made: a fixed γ, or with "auto" the length with the most expected tokens per cost.
import { bestLength } from '../lib/speedup_model.js';

const MOST = 16; // drafts of a round
const PRIOR_WEIGHT = 4; // tests that the prior counts for
const MEMORY = 24; // tests after which old evidence has faded to 1/e
const RECOVERY = 0.02; // share of the way back to the prior in each round left undrafted

/** ``v``: the cost of scoring a number of tokens at once, in plain steps; ``priors``: the chance of each key, before a
 * run has measured any. Drafts cost nothing, because they are copied.
 * @typedef {{ v: Record<string, number>, priors: Record<string, number> }} Costs */

/** @param {number | 'auto'} gamma @param {Costs | null} costs needed for "auto" */
export function makeDraftLength(gamma, costs) {
  /** @type {Record<string, number[]>} */
  const seen = {}; // key → accepted and rejected, both decayed

  /** @param {string | number} key */
  function alpha(key) {
    const [accepted, rejected] = seen[key] ?? [0, 0];
    return (accepted + PRIOR_WEIGHT * costs.priors[key]) / (accepted + rejected + PRIOR_WEIGHT);
  }
  const fade = (key, share) => {
    seen[key] = (seen[key] ?? [0, 0]).map(count => count * share);
  };

  /** @param {(string | number)[]} keys of each guess that could be proposed, in order @param {number} most */
  function choose(keys, most) {
    const length = bestLength(keys.slice(0, Math.min(MOST, most)).map(alpha), 0, costs.v, true);
    if (!length && keys[0] in seen) fade(keys[0], 1 - RECOVERY);
    return length;
  }

  /** @param {(string | number)[]} keys
   * @param {boolean[]} outcomes whether each draft was accepted, of those that were tested */
  function observe(keys, outcomes) {
    for (const [i, isAccepted] of outcomes.entries()) {
      fade(keys[i], 1 - 1 / MEMORY);
      seen[keys[i]][isAccepted ? 0 : 1] += 1;
    }
  }
  return gamma === 'auto' ? { choose, observe } : { choose: (_, most) => Math.min(gamma, most), observe() {} };
}
