// Adds a Print button to the papers for teachers: for all parts, or for the one that the address names.
import { makeButton } from '../lib/dom.js';

document.querySelector('.sl-contents p').prepend(makeButton('Print', () => window.print()));
