// Leads from the texts a reader serves to a drafter, a first γ and the command of their engine.

import { copyText } from '../../lib/copy_button.js';
import { make, makeButton, setText } from '../../lib/dom.js';
import { figure, makeNote, makeResult, picker } from '../widgets/widgets.js';

// ``engines``: [{ name, version, methods: { ngram: { code, note }, … } }]
export function makeRecipe({ engines }, touched) {
  const text = picker('You serve', [
    ['texts that quote their prompt', 'quotes'],
    ['chat, reasoning, stories', 'new'],
  ]);
  const head = picker('You also have', [
    ['a head that came with the model (MTP)', 'own'],
    ['a block drafter (DFlash)', 'block'],
    ['a head trained for the model', 'head'],
    ['a small model of its family', 'small'],
    ['none of these', 'none'],
  ]);
  const block = picker('Its block holds', [
    ['16 tokens', 16],
    ['8 tokens', 8],
  ]);
  const device = picker('It runs on', [
    ['a GPU, few users', 'gpu'],
    ['a GPU, many users', 'full'],
    ['a CPU', 'cpu'],
  ]);
  const engine = picker(
    'Engine',
    engines.map(each => [each.name, each]),
  );
  const answer = makeResult(),
    code = make('pre', 'sl-command', '', { tabindex: '0', role: 'region', 'aria-label': 'Command' }),
    note = makeNote();
  const copy = makeButton('Copy', async () => {
    setText(copy, await copyText(code.textContent, () => getSelection().selectAllChildren(code)));
  });

  // A block's first token is the text's last one. Half of it where each row of the pass costs time.
  const guesser = () =>
    ({
      own: ['mtp', 'the built-in head', 1],
      block: ['dflash', 'the block drafter', (device.value === 'gpu' ? block.value : block.value / 2) - 1],
      head: ['eagle', 'the trained head', device.value === 'cpu' ? 2 : 4],
      small: ['lm', 'the small model', 2],
    })[head.value];

  function choice() {
    const [method, name, gamma] =
      text.value === 'quotes' || !guesser()
        ? ['ngram', 'n-gram lookup', text.value === 'quotes' && device.value === 'gpu' ? 8 : 4]
        : guesser();
    return { method, name, gamma };
  }

  function draw() {
    const { method, name, gamma } = choice(),
      { version, methods } = engine.value,
      recipe = methods[method][gamma];
    let more = '';
    if (method === 'mtp') more = ' After that try two and three.';
    else if (method === 'lm')
      more = ' Try one as well, because each step of a small model costs a good part of a pass.';
    else if (method === 'dflash')
      more =
        device.value === 'gpu'
          ? ' That fills its block.'
          : ' That’s half of its block, because each draft takes a row of the pass.';
    block.row.hidden = method !== 'dflash';
    const busy =
      device.value === 'full'
        ? ' With many users let γ fall with the load, or measure whether drafts pay off at all.'
        : '';
    const both =
      method === 'ngram' && guesser() ? ` Also measure ${guesser()[1]}: some engines take both at once.` : '';
    const poor =
      method === 'ngram' && text.value === 'new'
        ? ' It won’t find much to copy in such texts, so expect a small gain.'
        : '';
    answer.textContent = `Start with ${name} and γ = ${gamma}.${more}${both}${poor}${busy}`;
    code.hidden = copy.hidden = !recipe.code;
    code.textContent = recipe.code ?? '';
    note.textContent = `${engine.value.name} ${version}. ${recipe.note}`;
    setText(copy, 'Copy');
    Object.assign(answer.dataset, { method, gamma });
  }
  return figure(
    'From your traffic to a command',
    draw,
    touched,
    text.row,
    head.row,
    block.row,
    device.row,
    engine.row,
    answer,
    code,
    copy,
    note,
  );
}
