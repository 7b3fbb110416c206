// Shows the theory of the site without a server.
import { mount } from '../lab/theory.js';
import { show } from './page.js';

show('theory', mount);
