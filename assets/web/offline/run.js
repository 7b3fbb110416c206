// Shows a saved run, with its settings and its prompt below the stage.
import { make } from '../lib/dom.js';
import { makeEmbed } from '../lib/embed_code.js';
import { mount } from '../player/stage.js';
import { isFramed } from './frame_height.js';
import { page, show } from './page.js';

const pairs = page.facts.flatMap(([name, value]) => [
  make('dt', '', name),
  make('dd', '', value, { dir: 'auto', translate: 'no' }),
]);
document.querySelector('.sl-facts dl').append(...pairs);
document.querySelector('.sl-facts-prompt').textContent = page.prompt;
const facts = document.querySelector('.sl-facts');
if (isFramed()) facts.removeAttribute('open');
else facts.append(makeEmbed(location.href.split('#')[0], 'A run of speculative decoding'));
show('stage', mount);
