// Draws the time of a round to scale above the plain steps for the same tokens, and asks what slows a round down.

import { make, makeButton } from '../../lib/dom.js';
import { quantity, wholePercent } from '../../lib/format.js';
import { expectedTokens, interpolate } from '../../lib/speedup_model.js';
import { makeCases, namesOf } from '../widgets/cases.js';
import { makeCurveChoice, rest } from '../widgets/curve_choice.js';
import { figure, makeNote, makeResult, makeSigns, short, slider } from '../widgets/widgets.js';

// A pass over W tokens of each user costs 1 until the device has no arithmetic to spare,
// and ``slope`` for each further token; or what the reader's own curve says.
const FREE_TOKENS = 128;
const passCost = (width, users, slope, v = null) =>
  v ? interpolate(v, users * width) : Math.max(1, (users * width) / FREE_TOKENS) + slope * (width - 1);

/** ``launch``: for each draft step, and once more; ``own``: a curve in place of the slope.
 * @typedef {{ alpha: number, gamma: number, c: number, slope: number, users: number, launch: number,
 *   own?: import('../../lib/own_curve.js').Curve | null }} Setting */
/** The time of a round in plain steps of one user, and its tokens for each. @param {Setting} setting */
export function roundTime({ alpha, gamma, c, slope, users, launch, own = null }) {
  const tokens = expectedTokens(alpha, gamma);
  const drafting = gamma * c;
  const pass = passCost(gamma + 1, users, slope, gamma ? own?.round : own?.v);
  const overhead = gamma ? (gamma + 1) * launch : 0;
  const plain = tokens * passCost(1, users, slope, own?.v);
  const total = drafting + pass + overhead;
  return { tokens, drafting, pass, overhead, total, plain, speedup: plain / total };
}

// What slows a run down: the setting that mends it, its name, and the sign by which it is known.
export const CAUSES = {
  few: {
    setting: 'alpha',
    name: 'few accepted',
    sign: 'α is low, and a round gives hardly more than one token.',
  },
  long: {
    setting: 'gamma',
    name: 'γ too long',
    sign: 'most drafts are never tested, and all of them cost time.',
  },
  costly: {
    setting: 'c',
    name: 'drafts cost too much',
    sign: 'much of the round goes into making drafts.',
  },
  steep: {
    setting: 'slope',
    name: 'wide passes cost too much',
    sign: 'the pass over a few tokens takes much longer than a plain step, even for one user.',
  },
  full: { setting: 'users', name: 'full batch', sign: 'the pass is long, and many users are served.' },
  launch: {
    setting: 'launch',
    name: 'launches',
    sign: 'much of the round is neither drafting nor the pass, because the device is waiting.',
  },
};

// The bar of a round above the bar of the plain steps, on one scale.
function makeBars() {
  const kinds = ['drafting', 'pass', 'overhead'];
  const pieces = Object.fromEntries(kinds.map(kind => [kind, make('i', `sl-ruler-${kind}`)]));
  const round = make('div', 'sl-ruler-bar', Object.values(pieces));
  const plain = make('div', 'sl-ruler-bar sl-ruler-plain');
  const box = make('div', 'sl-ruler', [make('span', '', 'a round'), round, make('span', '', 'plain'), plain], {
    role: 'img',
  });
  const legend = make(
    'p',
    'sl-ruler-legend',
    [
      ['drafting', 'draft steps'],
      ['pass', 'the pass'],
      ['overhead', 'overhead'],
      ['step', 'a plain step'],
    ].map(([kind, words]) => make('span', '', [make('i', `sl-ruler-${kind}`), words])),
  );

  function show(time, { gamma }) {
    const end = Math.max(time.total, time.plain);
    const share = x => `${(100 * x) / end}%`;
    const one = time.plain / time.tokens;
    for (const kind of kinds) pieces[kind].style.width = share(time[kind]);
    pieces.drafting.style.setProperty('--steps', String(Math.max(1, gamma)));
    plain.replaceChildren(
      ...Array.from({ length: Math.ceil(time.tokens - 1e-9) }, (_, i) =>
        make('i', 'sl-ruler-step', '', { '--share': share(Math.min(1, time.tokens - i) * one) }),
      ),
    );
    box.setAttribute(
      'aria-label',
      `A round: ${short(time.drafting)} drafting, ${short(time.pass)} the pass, ${short(time.overhead)} overhead. Plain steps for the same tokens: ${short(time.plain)}.`,
    );
  }
  return { rows: [box, legend], show };
}

function speedWords(speedup) {
  if (speedup >= 1.005) return `${short(speedup)} × as fast as plain decoding`;
  return speedup > 0.995 ? 'as fast as plain decoding' : `slower than plain decoding: ${short(speedup)} ×`;
}

// ``mine``: alpha, gamma, c and slope of the lesson's run.
export function makeRuler({ mine }, touched) {
  const bars = makeBars(),
    result = makeResult(),
    aside = makeNote(),
    choice = makeCurveChoice('as set below', draw);
  const sliders = {
    gamma: slider('γ, tokens drafted', { low: 0, high: 16, step: 1, value: 4 }),
    alpha: slider('α, chance to be accepted', { low: 0, high: 1, step: 0.01, value: 0.5 }),
    c: slider('c, cost of one draft step', { low: 0, high: 1, step: 0.005, value: 0.1 }),
    slope: slider('extra cost of each token scored', { low: 0, high: 1, step: 0.005, value: 0.1 }),
    users: slider('Users at once', { low: 1, high: 256, step: 1, value: 1 }),
    launch: slider('overhead of each draft step and pass', { low: 0, high: 1, step: 0.005, value: 0 }),
  };
  function set() {
    for (const [name, value] of Object.entries({ users: 1, launch: 0, ...mine })) sliders[name].value = value;
    draw();
  }

  function draw() {
    const { gamma, alpha, c, slope, users, launch } = sliders;
    const values = {
      gamma: gamma.value,
      alpha: alpha.value,
      c: c.value,
      slope: slope.value,
      users: users.value,
      launch: launch.value,
      own: choice.curve,
    };
    rest([slope.row], values.own !== null);
    const time = roundTime(values);
    bars.show(time, values);
    result.textContent = `${quantity(time.tokens, 'token', short(time.tokens))}${values.users > 1 ? ' for each user' : ''} in ${quantity(time.total, 'plain step', short(time.total))}: ${speedWords(time.speedup)}.`;
    const speeds = Array.from({ length: 17 }, (_, gamma) => roundTime({ ...values, gamma }).speedup),
      best = speeds.indexOf(Math.max(...speeds));
    aside.textContent = best
      ? `The best γ here is ${best}${best === 16 ? ' or more' : ''}: ${short(speeds[best])} ×.`
      : 'No γ gains here: plain decoding is best.';
    result.dataset.speedup = time.speedup.toFixed(4);
  }
  set();
  return figure(
    'The time of a round',
    draw,
    touched,
    ...bars.rows,
    result,
    make('div', 'sl-buttons', [makeButton('This lesson’s run', set)]),
    choice.row,
    ...Object.values(sliders).map(each => each.row),
    aside,
    makeNote(
      `A model, not a measurement. A pass can compute ${FREE_TOKENS} tokens before further users cost time, as in the lesson about many users.`,
    ),
  );
}

// Five rounds that lose, each for one cause. A test holds that mending the cause
// helps more than mending any other setting.
export const MYSTERIES = [
  { cause: 'costly', alpha: 0.6, gamma: 3, c: 0.5, slope: 0.03, users: 1, launch: 0.01 },
  { cause: 'few', alpha: 0.06, gamma: 2, c: 0.06, slope: 0.05, users: 2, launch: 0.01 },
  { cause: 'full', alpha: 0.6, gamma: 3, c: 0.04, slope: 0.02, users: 96, launch: 0.01 },
  { cause: 'long', alpha: 0.5, gamma: 14, c: 0.07, slope: 0.06, users: 1, launch: 0.02 },
  { cause: 'launch', alpha: 0.6, gamma: 3, c: 0.03, slope: 0.03, users: 1, launch: 0.35 },
];

/** What an engine's log and a profiler would show of such a round. @param {Setting} setting */
function symptoms(setting) {
  const { gamma, users, slope } = setting;
  const { tokens, drafting, pass, overhead, total } = roundTime(setting);
  const accepted = tokens - 1;
  return [
    ['mean acceptance length', tokens.toFixed(2)],
    ['drafts accepted', `${wholePercent(accepted / gamma)} of ${gamma} a round`],
    ['running requests', String(users)],
    ['one draft step', `${short(drafting / gamma)} of a plain step`],
    ['the pass', `${short(pass / passCost(1, users, slope))} plain steps`],
    ['device idle', wholePercent(overhead / total)],
  ];
}

export function makeMystery(_, touched) {
  const bars = makeBars(),
    signs = makeSigns();
  const settings = {
    cases: MYSTERIES,
    noun: 'case',
    verdicts: namesOf(CAUSES),
    verdictOf: ({ cause }) => cause,
    parts: [...bars.rows, signs.node],
    draw(values) {
      const time = roundTime(values);
      bars.show(time, values);
      signs.set(symptoms(values));
      return `It is ${speedWords(time.speedup)}.`;
    },
    reply: ({ cause }, chosen) =>
      `${chosen === cause ? 'Right' : `Not this one. It is “${CAUSES[cause].name}”`}: ${CAUSES[cause].sign}`,
    note: 'These rounds are made up, by the formula of “Fix it”.',
  };
  return makeCases('Which one is it?', settings, touched);
}
