// Plays rounds of n-gram lookup on the reader's own text, without a model: the text itself says what would have been
// written. The text goes along from lesson to lesson, in this browser alone.

import { make, makeButton } from '../../lib/dom.js';
import { quantity, visible } from '../../lib/format.js';
import { interpolate } from '../../lib/speedup_model.js';
import { readText, storeText } from '../../lib/storage.js';
import { makeCurveChoice } from '../widgets/curve_choice.js';
import { columns, figure, makeNote, makeResult, short, slider } from '../widgets/widgets.js';
import { ownRounds, ownSpeedup } from './lookup_rounds.js';
import { MERGES } from './merges.js';
import { makeTokenizer, textOf } from './tokenizer_mismatch.js';

const MOST = 10;
const STARTING =
  'The robot baked bread. The robot baked the bread every day, and every day the bread was better. The children said: the robot baked bread.';

const KEY = 'speclens-own-text';
let lastText = readText(KEY) ?? STARTING; // also where nothing can be stored

// ``v``: costs by width, where speed is predicted. ``view``: "rounds", "lengths" (every γ beside each other), "tree" (a
// second place to copy from), or "users" (who share a pass with ``seats`` tokens for one reading of the weights).
export function makeOwnText({ v, gamma: first = 4, view = 'rounds', seats = 128, known = 0.5 }, touched) {
  const { cut } = makeTokenizer(MERGES.prose);
  const field = make('textarea', 'sl-own-field', '', { rows: 4, maxlength: 2000, 'aria-label': 'Your text' });
  const share = slider('How much of it is the prompt', {
    low: 5,
    high: 95,
    step: 5,
    value: 100 * known,
    words: x => `${x} %`,
  });
  const gamma = slider('γ, tokens drafted', { low: 0, high: MOST, step: 1, value: first }),
    users = slider('Users with texts like this', { low: 1, high: 256, step: 1, value: 1 });
  const prompt = make('span', 'sl-dim'),
    rows = make('div', 'sl-own-rounds', [], { tabindex: '0', role: 'region', 'aria-label': 'Rounds' }),
    result = makeResult(),
    chart = make('div'),
    aside = makeNote();
  const next = makeButton('Next round', () => {
      shown++;
      draw();
      touched();
    }),
    all = makeButton('All of it', () => {
      shown = Infinity;
      draw();
      touched();
    }),
    again = makeButton('Start over', () => {
      shown = 0;
      draw();
    });
  const ways = view === 'tree' ? 2 : 1;
  const choice =
    v || view === 'users' ? makeCurveChoice(v ? 'what it costs in these runs' : 'as on a large device', draw) : null;
  let shown = 0;
  field.value = lastText;

  const chip = (token, status) =>
    make('span', 'sl-chip', visible(textOf([token])), {
      'data-status': status,
      'aria-label': `${textOf([token])}: ${status}`,
    });
  // Guesses of one place, of which the first ``accepted`` are right; without a test
  // (``tested`` false) all are discarded.
  const guesses = (drafts, accepted, tested) =>
    drafts.map((draft, i) =>
      chip(draft, !tested ? 'discarded' : i < accepted ? 'accepted' : i === accepted ? 'rejected' : 'discarded'),
    );

  function row({ drafts, others, accepted, isOther, at, length }, tokens, index) {
    const second = others.length
      ? [make('span', 'sl-dim', 'or'), ...guesses(others, isOther ? accepted : 0, isOther || !accepted)]
      : [];
    const closing = make('span', 'sl-chip sl-chip-new', visible(textOf([tokens[at + accepted]])));
    return make('div', 'sl-own-round', [
      make('b', '', String(index + 1)),
      ...guesses(drafts, isOther ? 0 : accepted, true),
      ...second,
      closing,
      make(
        'span',
        'sl-dim',
        drafts.length ? `matched ${quantity(length, 'token')}` : gamma.value ? 'nothing to copy' : 'no draft',
      ),
    ]);
  }

  // How long a pass over ``width`` tokens of each user takes, in passes over one.
  const sharedTime = width =>
    choice?.curve ? interpolate(choice.curve.v, users.value * width) : Math.max(1, (users.value * width) / seats);
  const time = width =>
    view === 'users' ? sharedTime(width) / sharedTime(1) : interpolate(choice?.curve?.round ?? v, width);

  function drawMore(tokens, from, seen) {
    const whole = ownRounds(tokens, from, gamma.value, ways);
    if (view === 'lengths') {
      const speeds = Array.from({ length: MOST + 1 }, (_, length) => ownSpeedup(ownRounds(tokens, from, length), time)),
        best = speeds.indexOf(Math.max(...speeds));
      chart.replaceChildren(
        columns(speeds, {
          marked: best,
          level: 1,
          top: Math.max(1.5, ...speeds),
          name: `Predicted speedup of your text for γ from 0 to ${MOST}; best at ${best}`,
        }),
      );
      aside.textContent = best
        ? `The best γ for this text is ${best}. It’s predicted to be ${short(speeds[best])} × as fast as plain decoding.`
        : 'On this text copying never pays off, so it’s best left switched off (γ = 0).';
      aside.dataset.best = String(best);
    } else if (view === 'tree') {
      const chain = ownRounds(tokens, from, gamma.value);
      aside.textContent = `All of it: ${quantity(chain.length, 'pass')} as one chain, ${whole.length} with a second place to copy from${v ? `. That’s predicted to be ${short(ownSpeedup(chain, time))} × and ${short(ownSpeedup(whole, time))} × as fast as plain decoding` : ''}.`;
      Object.assign(aside.dataset, { chain: chain.length, tree: whole.length });
    } else if (view === 'users') {
      const gain = ownSpeedup(whole, time);
      aside.textContent = `All of it, with ${quantity(users.value, 'user')}: ${short(gain)} × as many tokens as without drafts.`;
      aside.dataset.gain = gain.toFixed(4);
    } else if (v && seen.length) {
      const speed = ownSpeedup(seen, time);
      aside.textContent = `So far it’s predicted to be ${short(speed)} × as fast as plain decoding, with what a wider pass costs on ${choice?.curve ? 'your own machine' : 'the two cores of these runs'}.`;
      aside.dataset.speed = speed.toFixed(4);
    } else aside.textContent = '';
  }

  function draw() {
    const tokens = cut(field.value),
      from = Math.max(1, Math.min(tokens.length - 1, Math.round((tokens.length * share.value) / 100))),
      rounds = tokens.length > 1 ? ownRounds(tokens, from, gamma.value, ways) : [];
    shown = Math.min(shown, rounds.length);
    const seen = rounds.slice(0, shown),
      emitted = seen.reduce((sum, round) => sum + round.emitted, 0),
      kept = seen.reduce((sum, round) => sum + round.accepted, 0);
    const tested = seen.reduce((sum, { isOther, accepted, drafts, others }) => {
      const taken = isOther ? others : drafts,
        failed = isOther || (others.length && !accepted) ? 1 : 0;
      return sum + Math.min(accepted + 1, taken.length) + failed;
    }, 0);
    prompt.textContent = textOf(tokens.slice(0, from + emitted)).slice(-160);
    rows.replaceChildren(...seen.map((round, i) => row(round, tokens, i)));
    next.disabled = all.disabled = shown === rounds.length;
    const alpha = tested ? `, α ${(kept / tested).toFixed(2)}` : '';
    if (tokens.length < 2) result.textContent = 'Type a sentence or two.';
    else if (!shown) result.textContent = `${quantity(tokens.length, 'token')}, ${from} of them the prompt.`;
    else
      result.textContent = `${quantity(emitted, 'token')} in ${quantity(shown, 'pass')}: τ ${(emitted / shown).toFixed(2)}${alpha}.`;
    Object.assign(result.dataset, { tau: shown ? (emitted / shown).toFixed(4) : '', rounds: rounds.length });
    chart.replaceChildren();
    if (tokens.length > 1) drawMore(tokens, from, seen);
    else aside.textContent = '';
  }

  const box = figure(
    'Your own text',
    draw,
    () => {},
    field,
    share.row,
    gamma.row,
    ...(view === 'users' ? [users.row] : []),
    ...(choice ? [choice.row] : []),
    make('p', 'sl-own-text', ['… ', prompt, '▏']),
    make('div', 'sl-buttons', [next, all, again]),
    rows,
    result,
    chart,
    aside,
    makeNote(
      'No model is at work: what you typed stands for what it would write, so every draft is judged by your text. A small tokenizer runs in your browser, and nothing is sent.',
    ),
  );
  box.addEventListener('input', event => {
    if (event.target === field) {
      lastText = field.value;
      storeText(KEY, lastText);
    }
    shown = 0;
    draw();
  });
  return box;
}
