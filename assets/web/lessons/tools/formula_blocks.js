// Lets the learner build the speedup formula from blocks: each goes above or below the line of a fraction.

import { make, makeButton } from '../../lib/dom.js';
import { figure, makeNote, makeResult, makeSigns, short } from '../widgets/widgets.js';

// The value of the fraction (an empty side counts as nothing below, and null above) and what it leaves out.
// ``places``: by block, "above", "below" or "".
function readFraction(places, blocks) {
  const blocksOn = side => Object.keys(blocks).filter(name => places[name] === side);
  const sum = names => names.reduce((all, name) => all + blocks[name].value, 0);
  const above = blocksOn('above'),
    below = blocksOn('below');
  const is = (names, wanted) => [...names].sort().join() === [...wanted].sort().join();
  const value = above.length ? sum(above) / (below.length ? sum(below) : 1) : null;
  const isFormula = is(above, ['tau']) && is(below, ['drafting', 'pass']),
    isClock = is(above, ['tau']) && is(below, ['drafting', 'pass', 'overhead']);
  return { value, says: say(), isFormula, isClock };

  function say() {
    if (!above.length) return 'Put something above the line: what does a round give you?';
    if (above.includes('alpha')) return 'α counts accepted drafts only. A round also writes the token that closes it.';
    if (!is(above, ['tau'])) return 'A cost doesn’t belong above the line. What a round gives you goes there.';
    if (below.includes('alpha')) return 'α is no cost, so it doesn’t belong below the line.';
    if (!below.length) return 'That would be right if the round cost just one plain step.';
    if (is(below, ['drafting'])) return 'Now the drafts are paid for, but not the pass that checks them.';
    if (is(below, ['pass'])) return 'Now the pass is paid for, and the drafts are free. That’s right for a copy.';
    if (isClock) return 'Tokens of a round over all that a round takes. That’s what the clock sees.';
    if (isFormula)
      return 'Tokens of a round over the cost of a round. That’s the formula, which predicts. The clock sees one thing more.';
    return 'The overhead is paid, but not yet all the rest.';
  }
}

// ``tau``, ``alpha``, ``gamma``, ``c`` and ``v`` belong to a run; v is the cost of a full round's pass.
// ``measured``: its speedup by the clock; ``overhead``: what a round lacks of it, in plain steps.
export function makeFormulaBlocks({ tau, alpha, gamma, c, v, overhead, predicted, measured }, touched) {
  const blocks = {
    alpha: { name: 'α', value: alpha },
    drafting: { name: 'γ · c', value: gamma * c },
    tau: { name: 'τ', value: tau },
    pass: { name: 'v(γ + 1)', value: v },
    overhead: { name: 'overhead', value: overhead },
  };
  const places = Object.fromEntries(Object.keys(blocks).map(name => [name, ''])),
    NEXT = { '': 'above', above: 'below', below: '' };
  const rows = Object.fromEntries(['above', 'below', ''].map(side => [side, make('div', 'sl-blocks-row')])),
    result = makeResult(),
    aside = makeNote('', { role: 'status' }),
    signs = makeSigns();
  signs.set([
    [`α = ${short(alpha)}`, 'accepted ÷ tested drafts'],
    [`τ = ${short(tau)}`, 'tokens of a round, on average'],
    [`γ = ${gamma}`, 'drafts of a round'],
    [`c = ${c.toFixed(3)}`, 'a draft step, in plain steps'],
    [`v(${gamma + 1}) = ${short(v)}`, `a pass over ${gamma + 1} tokens, in plain steps`],
    [`overhead = ${short(overhead)}`, 'what else a round takes by the clock'],
  ]);
  const chips = Object.fromEntries(
    Object.entries(blocks).map(([name, block]) => [
      name,
      makeButton(
        [make('b', '', block.name), make('span', 'sl-dim', short(block.value))],
        () => {
          places[name] = NEXT[places[name]];
          draw();
          chips[name].focus();
          touched();
        },
        'sl-button sl-blocks-chip',
      ),
    ]),
  );

  function draw() {
    for (const [side, row] of Object.entries(rows)) {
      const here = Object.keys(blocks).filter(name => places[name] === side);
      row.replaceChildren(
        ...here.flatMap((name, i) => (i && side ? [make('span', 'sl-blocks-plus', '+'), chips[name]] : [chips[name]])),
      );
    }
    for (const [name, chip] of Object.entries(chips)) {
      const where = places[name] ? `${places[name]} the line` : 'not used';
      chip.setAttribute('aria-label', `${blocks[name].name}, ${short(blocks[name].value)}: ${where}; move it`);
    }
    const { value, says, isFormula, isClock } = readFraction(places, blocks);
    result.textContent = value === null ? says : `${short(value)}. ${says}`;
    aside.textContent =
      isFormula || isClock
        ? `This is for full rounds. Some rounds of the run were shorter, so all of it is predicted at ${short(predicted)} ×. The clock said ${short(measured)} ×.`
        : '';
    Object.assign(result.dataset, { value: value === null ? '' : value.toFixed(4), right: isFormula || isClock });
  }

  return figure(
    'Build the formula',
    draw,
    () => {},
    makeNote('Press a block to move it: above the line, below it, and away again.'),
    rows[''],
    make('div', 'sl-blocks', [rows.above, make('hr'), rows.below], { role: 'group', 'aria-label': 'The fraction' }),
    result,
    aside,
    signs.node,
  );
}
