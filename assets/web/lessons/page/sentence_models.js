// What the sentences with draggable numbers compute, by name: from numbers to
// results, each with the function of a tool.
import { expectedTokens, idealisedSpeedup } from '../../lib/speedup_model.js';
import { ratesOf } from '../tools/budget.js';
import { acceptChance } from '../tools/draft_rules.js';
import { passesPerSecond } from '../tools/roofline.js';

export const MODELS = {
  ceiling: ({ billions, bits, speed }) => ({ passes: passesPerSecond(speed, (billions * bits) / 8) }),
  chance: ({ p, q }) => ({ chance: acceptChance(p, q) }),
  verdict: ({ p, q, u }) => ({ verdict: u < acceptChance(p, q) ? 'accepted' : 'rejected' }),
  tokens: ({ alpha, gamma }) => ({ tokens: expectedTokens(alpha, gamma) }),
  speedup: ({ alpha, gamma, c, slope }) => ({
    tokens: expectedTokens(alpha, gamma),
    speed: idealisedSpeedup(alpha, gamma, c, { 1: 1, 2: 1 + slope }),
  }),
  budget: ({ users }) => {
    const { plain, same, surest, gamma } = ratesOf(users);
    return { plain, same, surest, gamma };
  },
};
