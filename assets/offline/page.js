// A saved run's own page: light or dark as the reader's system is, what ran, and the parts that draw themselves.
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

// What gradio gives a part on the live page; here a value comes once and nothing can be asked for.
function part(name, draw) {
  draw(document.getElementById(name), { value: page.values[name] }, () => {}, () => {});
}
