// Draws one pass: weights come from memory once, and every token of the pass is multiplied with them.

import { isCalm, make, makeButton } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { interpolate } from '../../lib/speedup_model.js';
import { makeCurveChoice, rest } from '../widgets/curve_choice.js';
import { DEVICES } from '../widgets/device_figures.js';
import { figure, makeNote, makeResult, meter, picker, short, slider } from '../widgets/widgets.js';

const BLOCKS = 12,
  FRAME = 130;

// The time of a pass over ``width`` tokens in passes over one, on a device with
// arithmetic for ``free`` tokens a reading.
/** @param {number} width @param {{ v?: Record<string, number>, free?: number }} machine */
export const pictureTime = (width, { v, free }) => (v ? interpolate(v, width) : Math.max(1, width / free));

// ``v``: measured times by width; ``zoom``: "one" pass, "two" models or many "users"; ``width``: tokens to
// begin with; ``c``: cost of a draft step.
export function makePassPicture({ v, zoom = 'one', width: first = 1, c = 0 }, touched) {
  const bf16 = ({ operations, speed }) => (1000 * operations) / speed;
  const machine = picker('Machine', [
    ['the two cores of these runs, measured', { v }],
    ...['RTX 4090', 'H100 SXM'].map(name => [`${name}, by its data sheet`, { free: bf16(DEVICES[name]) }]),
  ]);
  const choice = makeCurveChoice('as the machine below says', draw);
  const count = {
    one: slider('W, tokens in one pass', { low: 1, high: 16, step: 1, value: first }),
    two: slider('γ, tokens drafted', { low: 0, high: 8, step: 1, value: 4 }),
    users: slider('Users in the pass', { low: 1, high: 16, step: 1, value: first }),
  }[zoom];
  const drafts = zoom === 'users' ? slider('Drafts for each', { low: 0, high: 4, step: 1, value: 0 }) : null;
  const stack = (name, blocks) => ({ blocks: Array.from({ length: blocks }, () => make('i')), name });
  const target = stack('target', BLOCKS),
    draft = zoom === 'two' ? stack('draft', 3) : null;
  const column = ({ name, blocks }) =>
    make('div', 'sl-pass-stack', [make('div', 'sl-pass-blocks', blocks), make('span', '', name)]);
  const tokens = make('div', 'sl-pass-tokens'),
    picture = make(
      'div',
      'sl-pass-picture',
      [
        make('div', 'sl-pass-part', [
          make('b', '', 'Memory'),
          make('div', 'sl-pass-stacks', [target, draft].filter(Boolean).map(column)),
        ]),
        make('span', 'sl-pass-arrow', '→', { 'aria-hidden': 'true' }),
        make('div', 'sl-pass-part', [make('b', '', 'Pass'), tokens]),
      ],
      { role: 'img' },
    );
  const read = meter(),
    sums = meter(),
    time = meter('sl-meter-p'),
    apart = meter(),
    result = makeResult();
  const run = makeButton('Run the pass', start);
  let at = BLOCKS,
    ticking = null;

  const width = () =>
    zoom === 'two' ? count.value + 1 : zoom === 'users' ? count.value * (drafts.value + 1) : count.value;

  function start() {
    clearInterval(ticking);
    at = isCalm() ? BLOCKS : 0;
    draw();
    touched();
    if (at < BLOCKS)
      ticking = setInterval(() => {
        if (++at >= BLOCKS || !run.isConnected) clearInterval(ticking);
        draw();
      }, FRAME);
  }

  // A token of the pass: the text's, a user's, or a draft; filled as far as the weights have come.
  function drawTokens() {
    const seats = drafts ? drafts.value + 1 : 1;
    tokens.replaceChildren(
      ...Array.from({ length: width() }, (_, i) => {
        const isDraft = zoom === 'users' ? i % seats > 0 : i > 0,
          node = make('span', `sl-pass-token${isDraft ? ' sl-pass-draft' : ''}`, '', { '--at': at / BLOCKS });
        if (zoom === 'users') node.dataset.user = String(Math.floor(i / seats) % 4);
        return node;
      }),
    );
  }

  function draw() {
    target.blocks.forEach((block, i) => {
      block.dataset.state = i < at ? 'read' : i === at ? 'now' : '';
    });
    draft?.blocks.forEach(block => {
      block.dataset.state = count.value ? 'read' : '';
    });
    drawTokens();
    rest([machine.row], choice.curve !== null);
    const wide = width(),
      drafting = zoom === 'two' ? count.value * c : 0,
      whole = pictureTime(wide, choice.curve ?? machine.value) + drafting,
      top = Math.max(wide, whole);
    read.set('weights read', (1 + drafting) / top, zoom === 'two' ? `1 and ${count.value} small` : 'once');
    sums.set('sums', wide / top, `${wide} ×`);
    time.set('time', whole / top, `${short(whole)} ×`);
    apart.set(zoom === 'users' ? 'each in turn' : 'one by one', wide / top, `${wide} ×`);
    picture.setAttribute('aria-label', `A pass over ${quantity(wide, 'token')}: the target's weights are read once`);
    const tell = {
      one: `${wide === 1 ? 'One token takes' : `${wide} tokens take`} ${short(whole)} times as long as one, not ${wide} times.`,
      two: `Drafting takes ${count.value} · ${c.toFixed(3)}, and then there is one wide pass: ${short(whole)} plain steps in all, for at most ${quantity(wide, 'token')}.`,
      users: `${quantity(count.value, 'user')}, ${quantity(wide, 'token')}: the pass takes ${short(whole)} times as long as for one token.`,
    }[zoom];
    result.textContent =
      wide === 1 && zoom === 'one' ? 'One token: all weights are read, and each is used once.' : tell;
    Object.assign(result.dataset, { time: whole.toFixed(4), width: wide });
  }

  return figure(
    'Memory, weights, pass, tokens',
    draw,
    touched,
    count.row,
    ...(drafts ? [drafts.row] : []),
    choice.row,
    machine.row,
    picture,
    make('div', 'sl-buttons', [run]),
    read.row,
    sums.row,
    time.row,
    apart.row,
    result,
    makeNote(
      `One bar length is one pass over one token. For the GPUs this is an estimate from the data sheet: whichever takes longer, reading the weights in bf16 or computing.${zoom === 'two' ? ' The cost of a draft step is as on two cores throughout.' : ''}`,
    ),
  );
}
