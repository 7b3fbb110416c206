// Takes the v(W) of the reader's own machine: numbers, or the output of a benchmark, which the server reads. What it
// made of them is kept in this browser, so a reload finds it again and the lessons use it, too.
import { makeFind, onValue, setText } from '../lib/dom.js';
import { keepCurve, onCurve, ownCurve } from '../lib/own_curve.js';

const MOST = 1_000_000; // characters, as the server reads

export function mount(part) {
  const { element, trigger } = part;
  const find = makeFind(element);
  /** @type {HTMLTextAreaElement} */
  const box = find('textarea');
  /** @type {HTMLInputElement} */
  const file = find('input[type=file]');
  const error = find('.sl-own-curve-error'),
    now = find('.sl-own-curve-now');
  let asked = ''; // what the server was last asked to read

  // The server holds the curve for the answer, so it also hears that there is none.
  function ask(text) {
    asked = text;
    trigger('given', { text, at: Date.now() });
  }

  function show() {
    const curve = ownCurve();
    now.hidden = !curve;
    setText(find('.sl-own-curve-now span'), curve ? `In use, from ${curve.words} ${curve.note}` : '');
    if (curve && !box.value) box.value = curve.text;
    if ((curve?.text ?? '') !== asked) ask(curve?.text ?? ''); // another tab of the Lab has read one, or forgotten it
  }

  onValue(part, value => {
    const read = JSON.parse(value || '{}');
    setText(error, read.error ?? '');
    if (!read.v) return;
    asked = read.text;
    box.value = read.text;
    keepCurve(read);
  });
  find('.sl-own-curve-use').addEventListener('click', () => ask(box.value));
  find('.sl-own-curve-forget').addEventListener('click', () => {
    box.value = '';
    keepCurve(null);
  });
  file.addEventListener('change', async () => {
    const [chosen] = file.files;
    file.value = '';
    if (!chosen) return;
    if (chosen.size > MOST) {
      setText(error, `${chosen.name} is larger than a megabyte, so it is no output of one of these benchmarks.`);
      return;
    }
    box.value = await chosen.text();
    ask(box.value);
  });
  onCurve(element, show);
  show();
}
