// Makes the way from a step of a lesson to an experiment of the lab.
import { make, makeButton } from '../lib/dom.js';

// ``opened()`` is called when the learner opens the lab.
export function labButton({ name, title }, opened) {
  const button = makeButton(
    `Open the lab: ${title}`,
    () => {
      opened();
      document.getElementById('lab-tab-button')?.click();
      openLab(name, title);
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

// Retries, because the lab is drawn when its tab is first opened. On a narrow screen some of its tabs are entries of a
// menu, which have only titles.
function openLab(name, title, tries = 100) {
  const menu = [...document.querySelectorAll('.overflow-dropdown button')];
  const tab = document.getElementById(`lab-${name}-button`) ?? menu.find(each => each.textContent.trim() === title);
  if (tab) tab.click();
  else if (tries) setTimeout(openLab, 50, name, title, tries - 1);
}
