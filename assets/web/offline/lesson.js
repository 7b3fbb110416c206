// Shows the lessons of the site without a server.
import { mount } from '../lessons/page/lesson.js';
import { show } from './page.js';

show('lesson', mount);
