// Plays rounds of n-gram lookup on the reader's own text, without a model: the text itself says what would have been written.
import { MERGES } from './merges.js';
import { makeTokenizer, textOf } from './tokenizer_mismatch.js';
import { figure, makeResult, slider } from './widgets.js';
import { make, makeButton } from '../lib/dom.js';
import { visible } from '../lib/format.js';

const LONGEST = 8;

// ``gamma`` tokens that followed the longest end of ``text`` at its most recent earlier place, as the engine copies them: beyond
// the text's own end it goes on with their copy, so that a repeating pattern is continued.
export function lookUp(text, gamma) {
  for (let length = Math.min(LONGEST, text.length - 1); length > 0; length--) {
    const end = text.slice(-length);
    for (let start = text.length - length - 1; start >= 0; start--) {
      if (!end.every((token, i) => text[start + i] === token)) continue;
      const drafts = [];
      for (let at = start + length; drafts.length < gamma; at++) drafts.push(at < text.length ? text[at] : drafts[at - text.length]);
      return { length, drafts };
    }
  }
  return { length: 0, drafts: [] };
}

// The rounds that write ``tokens`` from ``known`` on, greedy: { at, length, drafts, accepted, emitted }. The last round drafts no
// more than is left but one.
export function ownRounds(tokens, known, gamma) {
  const rounds = [];
  for (let at = known; at < tokens.length;) {
    const { length, drafts } = lookUp(tokens.slice(0, at), Math.min(gamma, tokens.length - at - 1)), wrong = drafts.findIndex((draft, i) => draft !== tokens[at + i]);
    const accepted = wrong < 0 ? drafts.length : wrong;
    rounds.push({ at, length, drafts, accepted, emitted: accepted + 1 });
    at += accepted + 1;
  }
  return rounds;
}

// ``text``: to begin with; ``known``: the share of it that is the prompt.
export function makeOwnText({ text, known = 0.5 }, touched) {
  const { cut } = makeTokenizer(MERGES.prose);
  const field = make('textarea', 'sl-own-field', '', { rows: 4, maxlength: 2000, 'aria-label': 'Your text' });
  const share = slider('How much of it is the prompt', { low: 5, high: 95, step: 5, value: 100 * known, words: x => `${x} %` });
  const gamma = slider('γ, tokens drafted', { low: 1, high: 10, step: 1, value: 4 });
  const prompt = make('span', 'sl-dim'), rows = make('div', 'sl-own-rounds', [], { tabindex: '0', role: 'region', 'aria-label': 'Rounds' }), result = makeResult();
  const next = makeButton('Next round', () => { shown++; draw(); touched(); }), all = makeButton('All of it', () => { shown = Infinity; draw(); touched(); }), again = makeButton('Start over', () => { shown = 0; draw(); });
  let shown = 0;
  field.value = text;

  function row({ drafts, accepted, at, length }, tokens, index) {
    const chips = drafts.map((draft, i) => { const status = i < accepted ? 'accepted' : i === accepted ? 'rejected' : 'discarded'; return make('span', 'sl-chip', visible(textOf([draft])), { 'data-status': status, 'aria-label': `${textOf([draft])}: ${status}` }); });
    const closing = make('span', 'sl-chip sl-chip-new', visible(textOf([tokens[at + accepted]])));
    return make('div', 'sl-own-round', [make('b', '', String(index + 1)), ...chips, closing, make('span', 'sl-dim', drafts.length ? `matched ${length} ${length === 1 ? 'token' : 'tokens'}` : 'nothing to copy')]);
  }

  function draw() {
    const tokens = cut(field.value), from = Math.max(1, Math.min(tokens.length - 1, Math.round(tokens.length * share.value / 100))), rounds = tokens.length > 1 ? ownRounds(tokens, from, gamma.value) : [];
    shown = Math.min(shown, rounds.length);
    const seen = rounds.slice(0, shown), emitted = seen.reduce((sum, round) => sum + round.emitted, 0), tested = seen.reduce((sum, round) => sum + Math.min(round.accepted + 1, round.drafts.length), 0), kept = seen.reduce((sum, round) => sum + round.accepted, 0);
    prompt.textContent = textOf(tokens.slice(0, from + emitted)).slice(-160);
    rows.replaceChildren(...seen.map((round, i) => row(round, tokens, i)));
    next.disabled = all.disabled = shown === rounds.length;
    result.textContent = tokens.length < 2 ? 'Type a sentence or two.' : shown ? `${emitted} tokens in ${shown} ${shown === 1 ? 'pass' : 'passes'}: τ ${(emitted / shown).toFixed(2)}${tested ? `, α ${(kept / tested).toFixed(2)}` : ''}.` : `${tokens.length} tokens, ${from} of them the prompt.`;
    Object.assign(result.dataset, { tau: shown ? (emitted / shown).toFixed(4) : '', rounds: rounds.length });
  }

  const box = figure('Your own text', draw, () => {}, field, share.row, gamma.row, make('p', 'sl-own-text', ['… ', prompt, '▏']), make('div', 'sl-buttons', [next, all, again]), rows, result,
    make('p', 'sl-figure-note', 'No model is at work: what you typed stands for what it would write, so every draft is judged by your text. A small tokenizer runs in your browser, and nothing is sent.'));
  box.addEventListener('input', () => { shown = 0; draw(); });
  return box;
}
