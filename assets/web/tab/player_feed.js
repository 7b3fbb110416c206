// Turns the events of a run into the player's lines, as app/views/player_feed.py and tiles.py do for the served page; a
// test compares the two. For runs of our own engines, whose every number is known.
import { quantity, wholePercent } from '../lib/format.js';
import { isEmitted, isTested } from '../lib/statuses.js';

const DASH = '–';
const ONE_RUN = 0.05; // one run each cannot tell a smaller difference from noise
const CHEAPEST = 0.9; // no pass is much cheaper than a plain step
const Z95 = 1.959964;
const PROMPT = 300; // characters of it that are shown beside the output
const NUMBERS = ['p', 'q', 'u', 'accept', 'gap', 'running', 'h', 'expected', 'threshold'];

/** @typedef {{ started: any, rounds: any[], finished: any }} Run */

export const line = value => `${JSON.stringify(value)}\n`;
const roundTo = (number, digits) => Number(number.toPrecision(digits));
const isAccepted = token => token.status === 'accepted';
const emittedOf = ({ rounds }) => rounds.flatMap(({ tokens }) => tokens.filter(isEmitted));

/** @param {any} started @param {Record<string, string>} titles of the methods */
export function aboutLine({ config, pair, device }, titles) {
  const { temperature } = config.sampling,
    title = titles[config.method] ?? config.method,
    drafting = config.method === 'none' ? title : `${title}, γ = ${config.gamma}`,
    prompt = config.prompt.trim().replace(/\s+/g, ' ');
  return line({
    type: 'about',
    greedy: temperature === 0,
    words: [pair, drafting, `temperature ${temperature}`, `in your ${device.split(',')[0]}`].join(' · '),
    recorded: false,
    temperature,
    costs: null,
    most: config.max_new_tokens,
    method: config.method,
    prompt: prompt.length > PROMPT ? `${prompt.slice(0, PROMPT).trimEnd()}…` : prompt,
  });
}

const distributionLine = ({ top, rest }) => ({
  top: top.map(({ id, text, mass }) => [id, text, roundTo(mass, 4)]),
  rest: roundTo(rest, 4),
});

// Fields without a value are left out, and so are distributions that the draft which a token replaces has, too.
function tokenLine(token, rejected) {
  const { text, status, position, id, label } = token;
  /** @type {Record<string, any>} */
  const made = { text, status, position, id, ...(label === null ? {} : { label }) };
  for (const name of NUMBERS) if (token[name] !== null) made[name] = roundTo(token[name], 6);
  const { p, q, accept } = token;
  // It was tried after a sibling that was rejected.
  if (p !== null && accept !== null && q && Math.abs(Math.min(1, p / q) - accept) > 1e-3) made.sibling = true;
  for (const name of ['p_top', 'q_top', 'residual']) {
    const repeats = status === 'resampled' && JSON.stringify(rejected?.[name]) === JSON.stringify(token[name]);
    if (token[name] && !repeats) made[name] = distributionLine(token[name]);
  }
  return made;
}

export function roundLine({ index, tokens, parents, start, end, row_cost }) {
  const rejected = tokens.findLast(({ status }) => status === 'rejected');
  return line({
    type: 'round',
    index,
    accepted: tokens.filter(isAccepted).length,
    tested: tokens.filter(isTested).length,
    drafted: parents.length,
    start: Number(start.toFixed(5)),
    end: Number(end.toFixed(5)),
    tokens: tokens.map(token => tokenLine(token, rejected)),
    ...(parents.every((parent, i) => parent === i) ? {} : { parents }),
    ...(row_cost === null ? {} : { row: roundTo(row_cost, 6) }),
  });
}

/** @param {Run} run */
export const finishLine = run =>
  line({ type: 'finish', reason: run.finished?.reason ?? 'lost', tokens: emittedOf(run).length });

/** Counts of a run that may still go on; null before its first round. @param {Run | null} run */
function totalsOf(run) {
  if (!run?.rounds.length) return null;
  const { rounds } = run,
    tokens = rounds.flatMap(round => round.tokens),
    seconds = rounds.at(-1).end - rounds[0].start,
    emitted = tokens.filter(isEmitted).length;
  return {
    seconds,
    emitted,
    tested: tokens.filter(isTested).length,
    accepted: tokens.filter(isAccepted).length,
    discarded: tokens.filter(({ status }) => status === 'discarded').length,
    tau: emitted / rounds.length,
    speed: emitted / seconds,
  };
}

const hasEnded = run => Boolean(run?.finished) && run.finished.reason !== 'cancelled';

/** Decode tokens/s of a run ÷ its baseline's; null unless both have ended without a Stop.
 * @param {Run} run @param {Run | null} plain */
export function speedupOf(run, plain) {
  if (!hasEnded(run) || !hasEnded(plain)) return null;
  return totalsOf(run).speed / totalsOf(plain).speed;
}

/** The standard error of the rounds' total time as a share of it: of rounds of the same shape, whose times differ by
 * noise.
 * @param {Run} run */
function roundsError({ rounds }) {
  const alike = {};
  for (const { parents, draft_steps, drafter, start, end } of rounds) {
    const shape = [parents.length, draft_steps, drafter].join();
    alike[shape] = [...(alike[shape] ?? []), end - start];
  }
  let total = 0,
    squares = 0;
  for (const times of Object.values(alike).filter(({ length }) => length > 1)) {
    const sum = times.reduce((a, b) => a + b),
      mean = sum / times.length;
    total += sum;
    squares += (times.length / (times.length - 1)) * times.reduce((all, time) => all + (time - mean) ** 2, 0);
  }
  return total ? Math.sqrt(squares) / total : 0;
}

// How far the logarithm of a speedup that was measured once may be off.
const errorOf = (run, plain) => Math.max(ONE_RUN, Z95 * Math.hypot(roundsError(run), roundsError(plain)));

/** Whether a run was faster than its baseline; null without a speedup. @param {Run} run @param {Run | null} plain */
export function toneOf(run, plain) {
  const value = speedupOf(run, plain);
  if (value === null) return null;
  if (value > totalsOf(run).tau / CHEAPEST) return 'noise'; // no run can be faster than its tokens per pass allow
  if (Math.abs(Math.log(value)) <= errorOf(run, plain)) return 'level';
  return value > 1 ? 'faster' : 'slower';
}

function speedupTile(run, plain, isMeasuring, isRecorded) {
  const value = speedupOf(run, plain),
    tone = toneOf(run, plain);
  if (run.started.config.method === 'none') return [DASH, 'nothing was drafted: this is the baseline'];
  if (tone === 'noise') return ['noise', `more than τ = ${totalsOf(run).tau.toFixed(2)} allows: measure again`];
  if (value !== null) {
    const factor = Math.exp(errorOf(run, plain)),
      high = Math.min(value * factor, totalsOf(run).tau / CHEAPEST),
      between = `${(value / factor).toFixed(2)} to ${high.toFixed(2)}×, so not certain`;
    const words = tone === 'level' ? between : 'compared with plain decoding';
    return [`${value.toFixed(2)}×`, `${words}, measured just now, one run each`];
  }
  if (isRecorded) return [DASH, 'recorded without a complete baseline'];
  if (!isMeasuring) return [DASH, 'stopped before both runs had ended'];
  return ['…', `the same without drafting is ${run.finished ? 'being measured' : 'measured right after'}`];
}

// The baseline's lane: when each of its rounds ended, once all have.
function laneOf(plain) {
  const totals = totalsOf(plain);
  if (!totals) return null;
  const known = { tokens: totals.emitted, seconds: roundTo(totals.seconds, 6) };
  if (!plain.finished) return known;
  let count = 0;
  return {
    ...known,
    ends: plain.rounds.map(({ end }) => roundTo(end - plain.rounds[0].start, 6)),
    counts: plain.rounds.map(({ tokens }) => {
      count += tokens.filter(isEmitted).length;
      return count;
    }),
  };
}

/** @param {Run} run @param {Run | null} plain @param {boolean} isMeasuring the baseline runs or comes next
 * @param {boolean} isRecorded the run is from a file */
export function numbersLine(run, plain, isMeasuring, isRecorded = false) {
  const totals = totalsOf(run);
  if (!totals) return '';
  const { tested, accepted, discarded, tau, speed, emitted } = totals,
    more = discarded ? `; ${discarded} more came after a rejected one, never tested` : '';
  return line({
    type: 'numbers',
    measuring: isMeasuring,
    tiles: {
      alpha: tested
        ? [
            wholePercent(accepted / tested),
            `α = ${(accepted / tested).toFixed(2)}: ${accepted} of ${tested} tested drafts were accepted${more}`,
          ]
        : [DASH, 'no draft was tested'],
      tau: [tau.toFixed(1), `τ = ${tau.toFixed(2)} tokens per target pass; plain decoding writes 1`],
      speed: [speed.toFixed(1), `${quantity(emitted, 'token')}, reading the prompt not counted`],
      speedup: speedupTile(run, plain, isMeasuring, isRecorded),
    },
    plain: laneOf(plain),
    note: '',
    tone: toneOf(run, plain) ?? '',
  });
}

/** Compares the two texts: at temperature 0 they must be equal. @param {Run} run @param {Run} plain */
export function comparedLine(run, plain) {
  if (run.started.config.sampling.temperature) return line({ type: 'compared', verdict: 'sampled' });
  const [ours, theirs] = [emittedOf(run), emittedOf(plain)],
    at = ours.findIndex(({ id }, i) => theirs[i] && theirs[i].id !== id);
  if (at < 0) return line({ type: 'compared', verdict: 'same' });
  return line({ type: 'compared', verdict: 'differs', at, gap: theirs[at].gap && roundTo(theirs[at].gap, 6) });
}
