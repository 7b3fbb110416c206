// Shows a saved run, with its settings and its prompt below the stage.
import { make } from '../lib/dom.js';
import { mount } from '../player/stage.js';
import { page, show } from './page.js';

const pairs = page.facts.flatMap(([name, value]) => [
  make('dt', '', name),
  make('dd', '', value, { dir: 'auto', translate: 'no' }),
]);
document.querySelector('.sl-facts dl').append(...pairs);
document.querySelector('.sl-facts-prompt').textContent = page.prompt;
show('stage', mount);
