// Writes the answer: a sentence for the load asked for, one for a single user, what would change it and how sure it is.
import { onValue, setText } from '../lib/dom.js';

export function mount(part) {
  const { element } = part,
    box = element.querySelector('.sl-answer');
  const place = {
    answer: '.sl-answer-main',
    alone: '.sl-answer-alone',
    kinds: '.sl-answer-kinds',
    curve: '.sl-answer-curve',
    change: '.sl-answer-change',
    sure: '.sl-answer-sure',
  };

  onValue(part, value => {
    const sentences = JSON.parse(value || '{}');
    box.hidden = !sentences.answer;
    for (const [name, selector] of Object.entries(place)) {
      const node = element.querySelector(selector);
      setText(node, sentences[name] || '');
      node.hidden = !sentences[name];
      const term = node.previousElementSibling;
      if (term?.tagName === 'DT') term.hidden = node.hidden;
    }
  });
}
