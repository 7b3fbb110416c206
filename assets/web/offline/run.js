// Writes the settings and the prompt of a saved run below its stage.
const list = document.querySelector('.sl-facts dl');
for (const [name, value] of page.facts) {
  const term = document.createElement('dt'), words = document.createElement('dd');
  term.textContent = name;
  words.textContent = value;
  words.dir = 'auto';
  list.append(term, words);
}
document.querySelector('.sl-facts-prompt').textContent = page.prompt;
