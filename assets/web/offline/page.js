// Sets up a page without a server: light or dark like the reader's system, and the parts with their values.
'use strict';
const page = JSON.parse(document.getElementById('data').textContent);
const dark = matchMedia('(prefers-color-scheme: dark)');
const shade = () => document.body.classList.toggle('dark', dark.matches);
dark.addEventListener('change', shade);
shade();

// Calls a part as gradio does on the live page; here its value comes once, and no event reaches a server.
function part(name, draw) {
  draw(document.getElementById(name), { value: page.values[name] }, () => {}, () => {});
}
