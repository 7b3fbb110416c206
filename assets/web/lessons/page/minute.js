// Plays the idea in sixty seconds: a recorded run, round by round, in three moves: guess, check, keep. A fourth plays the
// same text with guesses that are all wrong, once the first run is over.

import { isCalm, make, makeButton, makeFind, setText } from '../../lib/dom.js';
import { makeEmbed } from '../../lib/embed_code.js';
import { quantity, visible } from '../../lib/format.js';
import { STATUSES } from '../../lib/statuses.js';
import { meter } from '../widgets/widgets.js';
import { makeMarkup } from './markup.js';

const MOVES = ['guess', 'check', 'keep'];
const NAMES = { guess: 'Guess', check: 'Check', keep: 'Keep', wrong: 'Break it' };
const SLOW = 650; // milliseconds for a move in the first rounds that play by themselves
const FAST = 150; // in all others

// The texts that a round adds: its accepted drafts, and the target's own token.
const addedTexts = ({ drafts, own }) => [
  ...drafts.filter(([, status]) => STATUSES[status].emitted).map(([text]) => text),
  ...(own ? [own[0]] : []),
];

// Every move of a run as {round, move}. A round without drafts has a single move, in which the model writes alone.
export const movesOf = rounds =>
  rounds.flatMap((each, round) => (each.drafts.length ? MOVES : ['keep']).map(move => ({ round, move })));

// What a move has brought: the tokens that are written, how many there would be by then without guesses, and the passes
// for which that text has been complete. A round counts once its last move is made.
export function standing(rounds, { round, move }) {
  const over = rounds.slice(0, round + (move === 'keep')),
    time = over.length ? over[over.length - 1].at : 0;
  const texts = over.flatMap(addedTexts),
    passes = Math.floor(time + 1e-9),
    total = rounds.flatMap(addedTexts).length;
  return { texts, alone: Math.min(passes, total), waits: Math.max(0, passes - total) };
}

// What became of a round's guesses, in a sentence.
export function verdictOn({ drafts, own }) {
  const quote = text => `“${text.trim()}”`;
  const accepted = drafts.filter(([, status]) => STATUSES[status].emitted).map(([text]) => quote(text)),
    rejected = drafts.find(([, status]) => status === 'rejected');
  if (!drafts.length && !own[0]) return 'The text is complete.';
  if (!drafts.length) return `Nothing to copy here. The model writes ${quote(own[0])}.`;
  const list = accepted.join(', ');
  if (rejected)
    return `The model accepts ${list || 'nothing'} and rejects ${quote(rejected[0])}. It writes ${quote(own[0])} instead.`;
  return own
    ? `All are accepted, and the same pass gives ${quote(own[0])}, too.`
    : 'All are accepted, and the text is complete.';
}

// ``page``: the lines and the run of app/lessons_tab/minute.py; ``links``: the ways on, as nodes.
function makeMinute(page, markup, links) {
  const total = page.rounds.flatMap(addedTexts).length;
  // The first rounds without guesses are over when it begins. With wrong guesses a round is a single move.
  const led = movesOf(page.rounds),
    right = { rounds: page.rounds, moves: led, first: led.findIndex(({ move }) => move === 'guess') - 1 },
    wrong = {
      rounds: page.wrong_rounds,
      moves: page.wrong_rounds.map((_, round) => ({ round, move: 'keep' })),
      first: 0,
    };
  const steps = Object.fromEntries(Object.keys(NAMES).map(move => [move, step(move)]));
  const note = make('p', 'sl-minute-note'),
    text = make('p', 'sl-minute-text'),
    result = make('p', 'sl-result', '', { role: 'status' }),
    end = make('p', 'sl-minute-end'),
    button = makeButton('', press, 'sl-button sl-minute-go'),
    breaking = makeButton('Make every guess wrong', breakIt, 'sl-button sl-minute-break'),
    bars = { drafted: meter('sl-meter-p'), alone: meter() };
  breaking.hidden = true; // until the run is over, there is nothing to break
  let { rounds, moves, first } = right,
    at = first,
    timer = 0;

  function step(move) {
    const line = markup.line('span', page[move]);
    return make('li', '', [make('strong', '', `${NAMES[move]}. `), line], { 'data-move': move });
  }
  const isOver = () => at === moves.length - 1,
    isWrong = () => rounds === wrong.rounds;
  // The reader makes the moves of the first round; then it plays by itself.
  const isLed = () => !isWrong() && moves[at + 1]?.round === moves[first + 1].round;

  function use(run) {
    ({ rounds, moves, first } = run);
    at = first;
    for (const [move, each] of Object.entries(steps)) each.hidden = (move === 'wrong') !== isWrong();
    end.replaceChildren(markup.line('span', run === wrong ? page.wrong_end : page.end));
    draw();
  }

  function press() {
    if (timer) return stop();
    if (isOver()) return use(right);
    if (isLed()) return advance();
    playOn();
  }
  function playOn() {
    if (!isCalm()) return wait();
    at = moves.length - 1;
    draw();
  }
  function breakIt() {
    stop();
    use(wrong);
    steps.wrong.scrollIntoView({ block: 'nearest' }); // a phone may have scrolled past it
    playOn();
  }
  function advance() {
    at++;
    draw();
  }
  function wait() {
    const isSlow = moves[at + 1].round < moves[first + 1].round + (isWrong() ? 2 : 4);
    timer = setTimeout(
      () => {
        advance();
        if (isOver() || !text.isConnected) stop();
        else wait();
      },
      isSlow ? SLOW : FAST,
    );
    name();
  }
  function stop() {
    clearTimeout(timer);
    timer = 0;
    name();
  }
  function name() {
    setText(
      button,
      timer ? 'Pause' : isOver() ? 'Play it again' : isLed() ? NAMES[moves[at + 1].move] : 'Play the rest',
    );
  }

  const token = ([words, status], className = `sl-${status}`, mark = STATUSES[status].mark) =>
    make('span', `sl-token ${className}`, [
      make('span', 'sl-piece', visible(words.replace(/^ /, ''))),
      mark && make('span', 'sl-mark', mark),
    ]);

  function draw() {
    const { round, move } = moves[at],
      now = rounds[round],
      { texts, alone, waits } = standing(rounds, moves[at]),
      before = rounds.slice(0, round).flatMap(addedTexts).join('');
    const isKept = move === 'keep',
      seen = now.drafts.filter(([words]) => words), // the end of a text has none
      drafts = seen.map(each => (isKept ? token(each) : token(each, 'sl-minute-open', '?')));
    const row = make('span', 'sl-minute-row', [...drafts, isKept && now.own?.[0] && token(now.own)], {
      'data-move': move,
    });
    text.replaceChildren(make('span', '', before), ' ', row);
    drawNote(isKept ? '' : now.drafts.map(([words]) => words).join(''));
    const current = isWrong() ? 'wrong' : at > first && move;
    for (const each of Object.keys(NAMES)) steps[each].toggleAttribute('data-now', each === current);
    const tokenWords = count => quantity(count, 'token');
    bars.drafted.set('with guesses', texts.length / total, tokenWords(texts.length));
    bars.alone.set('one at a time', alone / total, tokenWords(alone));
    const since = waits ? ` One at a time it was complete ${quantity(waits, 'pass')} ago.` : '';
    setText(result, isKept && at > first ? verdictOn(now) + since : '');
    end.hidden = !isOver();
    if (isOver()) breaking.hidden = false;
    Object.assign(result.dataset, { tokens: texts.length, alone, passes: isKept ? round + 1 : round });
    name();
  }
  // The place that is copied is marked.
  function drawNote(words) {
    const place = words ? page.prompt.indexOf(words) : -1,
      [from, to] = place < 0 ? [0, 0] : [place, place + words.length];
    note.replaceChildren(
      page.prompt.slice(0, from),
      ...(to ? [make('mark', '', page.prompt.slice(from, to))] : []),
      page.prompt.slice(to),
    );
  }

  use(right);
  return [
    markup.line('p', page.lead),
    make('ol', 'sl-minute-steps', Object.values(steps)),
    make('div', 'sl-minute-box', [
      note,
      text,
      make('div', 'sl-buttons', [button, breaking]),
      bars.drafted.row,
      bars.alone.row,
      result,
    ]),
    end,
    links.length > 0 && make('p', 'sl-buttons', links),
  ].filter(Boolean);
}

// The page alone, without the list of lessons: in a frame of another page nothing leads away from it.
export function mountAlone({ element, props }) {
  const page = JSON.parse(props.value),
    find = makeFind(element);
  const markup = makeMarkup(find('.sl-define')),
    isAlone = window.parent === window;
  const links = isAlone ? [make('a', 'sl-button', 'Go on to the lessons', { href: page.lessons })] : [];
  markup.listen(element);
  markup.use(page.words);
  find('.sl-minute > div').replaceChildren(...makeMinute(page, markup, links));
  if (isAlone) find('.sl-minute').append(makeEmbed(location.href.split('#')[0], page.title));
}

// Fills the folded box before the list while the list is shown; it is open for who has not begun a lesson.
// ``playground``: what takes the place of that tab on a site without a server.
export function mountMinute(box, page, markup, playground) {
  const content = box.querySelector('div');
  function openPlayground() {
    document.getElementById('playground-tab-button').click();
    makeFind(document)('#prompt textarea')?.focus(); // which brings it into sight
  }
  const waysOn = () => [
    make('a', 'sl-button', 'Be the drafter yourself', { href: '#lesson-in_five_minutes' }),
    playground
      ? make('a', 'sl-button', playground.title, { href: playground.href })
      : makeButton('Try your own text', openPlayground, 'sl-button sl-minute-tab'),
  ];
  box.querySelector('h2').textContent = page.title;
  return {
    show(isNew) {
      box.open = isNew;
      markup.use(page.words);
      content.replaceChildren(
        ...makeMinute(page, markup, waysOn()),
        makeEmbed(new URL(page.alone, document.baseURI).href, page.title),
      );
    },
    hide: () => content.replaceChildren(),
  };
}
