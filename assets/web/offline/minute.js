// Shows the idea in sixty seconds as a page of its own.
import { mountAlone } from '../lessons/page/minute.js';
import { show } from './page.js';

show('minute', mountAlone);
