// Shows "Write the rule yourself" on a page of its own, #rule: the rule, the rule for siblings, and the choice of γ.

import { make } from '../../lib/dom.js';
import { makeWriteGamma } from './write_gamma.js';
import { makeWriteRule } from './write_rule.js';
import { makeWriteSiblings } from './write_siblings.js';

const lessonLink = (text, slug) => make('a', 'sl-lesson-link', text, { href: `#lesson-${slug}` });

// ``exercise``: as in the lesson that ends with it. The boxes are made when the page is opened.
export function mountRulePage(box, exercise) {
  const place = box.querySelector('.sl-rule-boxes');
  const part = (title, words, tool) => make('section', '', [make('h3', '', title), make('p', '', words), tool]);

  return {
    show() {
      place.replaceChildren(
        part(
          'Accept, replace, close',
          [
            'The rule of ',
            lessonLink('lesson 3', 'accept_reject_resample'),
            '. In Python: ',
            make('code', '', 'python -m engine exercise rule --start my_rule.py'),
            '.',
          ],
          makeWriteRule({ exercise }, () => {}),
        ),
        part(
          'Siblings of a tree',
          [
            'Two words are drawn for the same place (',
            lessonLink('lesson 12', 'token_trees'),
            '). The first is tested as always. What if it’s rejected?',
          ],
          makeWriteSiblings(() => {}),
        ),
        part(
          'How many drafts?',
          [
            'A round of γ drafts is to write tokens as fast as possible (',
            lessonLink('lesson 8', 'how_many_drafts'),
            '). What do you compare?',
          ],
          makeWriteGamma(() => {}),
        ),
      );
    },
    hide: () => place.replaceChildren(),
  };
}
