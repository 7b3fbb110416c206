// Draws a lesson's text from spans [style, text, glossary entry]. Text only ever meets textContent.
/** @import { Block, Line, Span } from './lesson_page.d.ts' */
import { closest, make } from '../../lib/dom.js';

export function makeMarkup(definition) {
  let words = {};
  const TAGS = { text: 'span', bold: 'strong', italic: 'em', code: 'code', sum: 'span' };

  // ^(…) and ^x are raised.
  function raise(tag, text) {
    return make(
      tag,
      '',
      text.split(/\^(\([^)]*\)|\S)/).map((part, i) => (i % 2 ? make('sup', '', part.replace(/^\(|\)$/g, '')) : part)),
    );
  }

  // One ÷ makes a fraction of its two sides. A screen reader reads the line as it was written.
  function formula(text) {
    const sides = text.split(' ÷ '),
      parts = sides.map(side => raise('span', side.replace(/^\((.*)\)$/, '$1')));
    const content = sides.length === 2 ? make('span', 'sl-over', parts) : raise('span', text);
    return make('span', 'sl-math', [content], { role: 'math', 'aria-label': text });
  }

  /** @param {Span} span */
  function piece([style, text, entry]) {
    if (style === 'formula') return formula(text);
    if (style === 'lesson') return make('a', 'sl-lesson-link', text, { href: `#lesson-${entry}` });
    if (style === 'page') return make('a', 'sl-lesson-link', text, { href: `#${entry}` });
    if (style === 'drag' || style === 'live') return make('span', `sl-${style}`, text, { [`data-${style}`]: entry });
    if (style === 'claim')
      return make('button', 'sl-word sl-claim', text, {
        type: 'button',
        'data-entry': entry,
        'aria-label': `Source ${text}`,
      });
    if (style !== 'word') return make(TAGS[style], style === 'sum' ? 'sl-sum' : '', text);
    return make('button', 'sl-word', text, { type: 'button', 'data-entry': entry });
  }

  const isButton = style => style === 'word' || style === 'claim';
  /** Keeps “target” and “'s” together: a word is a button, and a line may break after a button even without a space.
   * @param {keyof HTMLElementTagNameMap} tag @param {Line} pieces @param {string} [className] */
  function line(tag, pieces, className) {
    const node = make(tag, className);
    pieces.forEach((each, i) => {
      const [style, text] = each,
        before = isButton(pieces[i - 1]?.[0]) && !isButton(style) ? /^\S+/.exec(text)?.[0] : '';
      if (!before) return node.append(piece(each));
      const unbroken = make('span', 'sl-unbroken');
      unbroken.append(node.lastChild, piece([style, before]));
      node.append(unbroken, piece([style, text.slice(before.length)]));
    });
    return node;
  }

  /** @param {Block} block */
  function block({ kind, lines }) {
    if (kind === 'paragraph') return line('p', lines[0]);
    return make(
      'ul',
      '',
      lines.map(each => line('li', each)),
    );
  }

  // ── a word's meaning: on hover, on focus, and on a tap ──
  let opened = null;
  function hide() {
    definition.hidden = true;
    opened?.removeAttribute('aria-describedby');
    opened = null;
  }
  function show(node) {
    hide();
    definition.textContent = words[node.dataset.entry] || '';
    definition.hidden = false;
    const at = node.getBoundingClientRect(),
      width = definition.offsetWidth,
      tall = definition.offsetHeight;
    definition.style.left = `${Math.max(8, Math.min(at.left, window.innerWidth - width - 8))}px`;
    definition.style.top = `${at.bottom + tall + 8 > window.innerHeight ? at.top - tall - 6 : at.bottom + 6}px`;
    node.setAttribute('aria-describedby', definition.id);
    opened = node;
  }
  function listen(root) {
    const word = event => closest(event.target, '.sl-word');
    const leave = () => {
      if (opened !== document.activeElement) hide();
    };
    root.addEventListener('mouseover', event => {
      const node = word(event);
      if (node) show(node);
      else leave();
    });
    root.addEventListener('mouseleave', leave); // the pointer may leave the window directly
    root.addEventListener('focusin', event => {
      const node = word(event);
      if (node) show(node);
    });
    root.addEventListener('focusout', hide);
    root.addEventListener('click', event => {
      const node = word(event);
      if (node) show(node);
    });
    root.addEventListener('keydown', event => {
      if (event.key === 'Escape') hide();
    });
    window.addEventListener('scroll', hide, { passive: true });
  }

  return {
    line,
    block,
    listen,
    use: entries => {
      words = entries;
      hide();
    },
  };
}
