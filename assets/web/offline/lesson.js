// Shows the lessons of the site without a server, and presents them.
import { mount } from '../lessons/page/lesson.js';
import { makePresenting } from '../lib/presenting.js';
import { show } from './page.js';

show('lesson', mount);
const present = makePresenting(document.querySelector('[data-share="present"]'));
if (new URLSearchParams(location.search).has('present')) present(true); // "Open it for the projector"
