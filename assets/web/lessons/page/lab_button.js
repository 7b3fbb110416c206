// Makes the way from a step of a lesson to an experiment of the lab.
import { make, makeButton } from '../../lib/dom.js';

// ``opened()`` is called when the learner opens the lab.
export function labButton({ name, title }, opened) {
  const button = makeButton(
    `Open the lab: ${title}`,
    () => {
      opened();
      location.hash = `#lab-${name}`; // the page opens what its address names
    },
    'sl-button',
    { 'data-lab': name },
  );
  return make('p', '', [button]);
}

// On a site without a server: the theory, which it has, or what there is to do on the live page.
export function labNote({ name, title, hint }) {
  const theory = () => make('a', 'sl-lesson-link', 'Open the theory', { href: 'theory.html' });
  return make('p', '', [name === 'theory' ? theory() : `On the live page, in the lab under ${title}: ${hint}`]);
}
