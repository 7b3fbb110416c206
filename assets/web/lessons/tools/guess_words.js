// Lets the learner be the drafter: guesses the next tokens of a recorded run, which then judges,
// and compares α and τ with the drafters’.

import { make, makeButton } from '../../lib/dom.js';
import { quantity, visible } from '../../lib/format.js';
import { figure, makeNote, makeResult, meter, picker } from '../widgets/widgets.js';
import { linkTo, makeShare, messageOf } from './guess_share.js';

// One round: how many guesses are accepted, and how many tokens that gives. Greedy, so a
// guess is accepted if it is the token.
export function judgeGuesses(guesses, tokens) {
  const wrong = guesses.findIndex((guess, i) => guess !== tokens[i]),
    accepted = wrong < 0 ? guesses.length : wrong;
  return { drafted: guesses.length, accepted, tested: accepted + (wrong < 0 ? 0 : 1), emitted: accepted + 1 };
}

// α and τ of rounds such as judgeGuesses gives. α is null where nothing was tested.
export function guessScore(rounds) {
  const sum = name => rounds.reduce((all, round) => all + round[name], 0);
  return {
    alpha: sum('tested') ? sum('accepted') / sum('tested') : null,
    tau: rounds.length ? sum('emitted') / rounds.length : 0,
  };
}

// ``texts``: by name, the prompt, the tokens, four candidates for each, and [drafter, α, τ] of the recorded
// runs. ``limit``: after how many rounds it is over; then nothing is compared. The single round of
// ``limit`` 1 ends with a wrong guess, because the next choices would give the right word away. ``text``:
// the number of the text to begin with, from 1.
export function makeGuessWords({ texts, gamma, rounds: limit = Infinity, text: first = 1 }, touched) {
  const names = Object.keys(texts),
    text = picker('Text', Object.entries(texts), Math.min(first, names.length) - 1),
    prompt = make('p'),
    note = make('details', 'sl-guess-prompt', [make('summary', '', 'The prompt'), prompt], { open: '' }),
    written = make('p', 'sl-guess-text'),
    where = make('p', 'sl-question-kind');
  const options = make('div', 'sl-options sl-guess-options'),
    question = make('div', 'sl-question', [where, options]),
    result = makeResult();
  const table = make('div', 'sl-guess-scores'),
    share = make('div'),
    again = makeButton('Start over', restart);
  let now, at, guesses, rounds, kinds, wrong; // by place: the wrong guess that was replaced there

  function restart() {
    now = text.value;
    [at, guesses, rounds, kinds, wrong] = [0, [], [], [], {}];
    prompt.textContent = now.prompt;
    result.textContent = '';
    ask();
  }

  // The last token of the text needs no draft: a pass gives it.
  const countDrafts = () => Math.min(gamma, now.tokens.length - at - 1);

  function ask() {
    const isOver = at >= now.tokens.length || rounds.length >= limit,
      place = at + guesses.length;
    written.replaceChildren(
      ...now.tokens
        .slice(0, at)
        .flatMap((token, i) => [
          wrong[i] ? make('s', 'sl-guess-wrong', ` ✗\u00a0${visible(wrong[i].trim())}`) : '',
          make('span', `sl-guess-${kinds[i]}`, token),
        ]),
      ...guesses.map(guess => make('span', 'sl-guess-draft', guess)),
      isOver ? '' : '▏',
    );
    question.hidden = isOver;
    const isCompared = isOver && limit === Infinity;
    table.replaceChildren(...(isCompared ? scores() : []));
    share.replaceChildren(...(isCompared ? message() : []));
    if (isOver) return;
    where.textContent =
      limit === 1
        ? `Guess ${guesses.length + 1} of ${countDrafts()}`
        : `Round ${rounds.length + 1}: draft ${guesses.length + 1} of ${countDrafts()}`;
    options.replaceChildren(
      ...now.candidates[place].map((candidate, i) =>
        makeButton(
          [make('kbd', '', String(i + 1)), make('span', '', visible(candidate.replace(/^ /, '')))],
          () => guess(candidate),
          'sl-option',
        ),
      ),
    );
  }

  function guess(candidate) {
    const hadFocus = options.contains(document.activeElement);
    guesses.push(candidate);
    if (guesses.length === countDrafts() || (limit === 1 && candidate !== now.tokens[at + guesses.length - 1])) judge();
    ask();
    if (hadFocus) (options.isConnected && !question.hidden ? options.querySelector('button') : again).focus();
  }

  function judge() {
    const round = judgeGuesses(guesses, now.tokens.slice(at)),
      own = now.tokens[at + round.accepted].trim();
    rounds.push(round);
    kinds.push(...Array(round.accepted).fill('accepted'), round.accepted === guesses.length ? 'bonus' : 'resampled');
    if (round.accepted < guesses.length) wrong[at + round.accepted] = guesses[round.accepted];
    const lost = guesses.length - round.tested;
    if (limit === 1) result.textContent = firstReply(round, own);
    else if (round.accepted === guesses.length)
      result.textContent = `All ${guesses.length} are accepted, and “${own}” is the bonus.`;
    else
      result.textContent = `${round.accepted} accepted. “${guesses[round.accepted].trim()}” is rejected: the target writes “${own || '⏎'}”.${lost ? ` ${lost} discarded.` : ''}`;
    at += round.emitted;
    guesses = [];
    if (now.tokens.length - at === 1) {
      rounds.push({ drafted: 0, accepted: 0, tested: 0, emitted: 1 });
      kinds.push('plain');
      at++;
    }
    touched();
  }

  // Before any term has been explained.
  function firstReply({ accepted, emitted }, own) {
    let right = `The model writes “${own}” instead, so no further guess could fit`;
    if (accepted === guesses.length)
      right = `${accepted === 1 ? 'Your guess is' : `All ${accepted} of your guesses are`} right, and the model adds “${own}”`;
    else if (accepted)
      right = `Your first ${accepted === 1 ? 'guess is' : `${accepted} guesses are`} right. Then the model writes “${own}”`;
    return `${right}: ${quantity(emitted, 'piece')} of text from one look.`;
  }

  function scores() {
    const { alpha, tau } = guessScore(rounds),
      lines = [['you', alpha, tau], ...now.drafters],
      most = Math.max(...lines.map(line => line[2]));
    result.dataset.tau = tau.toFixed(4);
    return lines.map(([name, share, tokens]) => {
      const bar = meter(name === 'you' ? 'sl-meter-p' : '');
      bar.set(name, tokens / most, `τ ${tokens.toFixed(2)}, α ${share === null ? '–' : share.toFixed(2)}`);
      return bar.row;
    });
  }

  function message() {
    const number = Object.values(texts).indexOf(now) + 1,
      { tau } = guessScore(rounds);
    return makeShare(messageOf({ name: names[number - 1], tau, rounds, drafters: now.drafters, link: linkTo(number) }));
  }

  const box = figure(
    limit === 1 ? 'What comes next?' : 'Be the drafter',
    () => {},
    () => {},
    ...(limit === 1 ? [] : [text.row]),
    note,
    written,
    question,
    result,
    table,
    share,
    make('div', 'sl-buttons', [again]),
    limit === 1
      ? ''
      : makeNote(
          `Greedy, γ = ${gamma} for all. The choices are the words that the model found likeliest here, topped up with other words from the text. They continue the recorded text, even after a wrong guess of yours.`,
        ),
  );
  text.row.addEventListener('change', restart);
  restart();
  return box;
}
