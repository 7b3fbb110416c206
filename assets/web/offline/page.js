// Sets up a saved run's page: light or dark like the reader's system, the settings, and the parts with their values.
'use strict';
const page = JSON.parse(document.getElementById('run').textContent);
const dark = matchMedia('(prefers-color-scheme: dark)');
const shade = () => document.body.classList.toggle('dark', dark.matches);
dark.addEventListener('change', shade);
shade();

const list = document.querySelector('.sl-facts dl');
for (const [name, value] of page.facts) {
  const term = document.createElement('dt'), words = document.createElement('dd');
  term.textContent = name;
  words.textContent = value;
  words.dir = 'auto';
  list.append(term, words);
}
document.querySelector('.sl-facts-prompt').textContent = page.prompt;

// Calls a part as gradio does on the live page; here its value comes once, and no event reaches a server.
function part(name, draw) {
  draw(document.getElementById(name), { value: page.values[name] }, () => {}, () => {});
}
