// Reads and fills the form of the engine in this tab: its settings, its examples, and links that carry them.
import { copyText } from '../lib/copy_button.js';
import { make, makeButton } from '../lib/dom.js';

// The form's fields by their names in a link of the served page, where γ has two: ``auto`` and ``gamma``.
const FIELDS = {
  prompt: 'prompt',
  method: 'method',
  temperature: 'temperature',
  seed: 'seed',
  tokens: 'max_new_tokens',
};
const AUTO = 'auto';
const LONGEST = 16; // γ
const LABEL_STAYS = 3000; // milliseconds

/** @typedef {HTMLFormControlsCollection & { prompt: HTMLTextAreaElement, method: HTMLSelectElement,
 *   gamma: HTMLSelectElement } & Record<'temperature' | 'seed' | 'max_new_tokens', HTMLInputElement>} Fields */

// A run's settings as a trace has them. ``defaults``: the settings that the form doesn't ask for.
export function configOf(fields, defaults, method) {
  const number = name => Number(fields[name].value);
  const sampling = { ...defaults.sampling, temperature: number('temperature') },
    gamma = method === 'none' ? 0 : fields.gamma.value === AUTO ? AUTO : number('gamma');
  const [prompt, seed, max_new_tokens] = [fields.prompt.value, number('seed'), number('max_new_tokens')];
  return { ...defaults, prompt, method, gamma, sampling, seed, max_new_tokens };
}

export const linkOf = (fields, base) =>
  new URL(
    `?${new URLSearchParams({
      ...(fields.gamma.value === AUTO ? { auto: '1' } : { auto: '0', gamma: fields.gamma.value }),
      ...Object.fromEntries(Object.entries(FIELDS).map(([name, field]) => [name, fields[field].value])),
    })}`,
    base,
  ).href;

// Writes the link into the address bar, and returns whether that was possible: Safari throws after a hundred changes in
// half a minute, and a browser may refuse a link of this length.
function showAddress(link) {
  if (window.top !== window) return false;
  try {
    history.replaceState(null, '', link);
  } catch {
    return false;
  }
  return true;
}

export function offerLink(button, fields) {
  const label = button.textContent;
  button.addEventListener('click', async () => {
    const link = linkOf(fields, location.href);
    const isShown = showAddress(link);
    button.textContent = await copyText(link, () =>
      isShown
        ? 'The link is in the address bar'
        : window.top === window
          ? 'Not allowed here'
          : 'Not allowed in this frame',
    );
    setTimeout(() => Object.assign(button, { textContent: label }), LABEL_STAYS);
  });
}

// Lists the methods and examples, and takes over what the page's own address says: a link, or the served page after the
// #, which no server gets. Returns a sentence on settings that are missing here, or ''.
export function fillForm(fields, examples, page) {
  for (const name of page.methods) fields.method.append(make('option', '', page.titles[name], { value: name }));
  for (let gamma = 1; gamma <= LONGEST; gamma++)
    fields.gamma.append(make('option', '', String(gamma), { value: gamma })); // which no translation changes
  for (const [name, { prompt, temperature }] of Object.entries(page.examples)) {
    const fill = () => {
      fields.prompt.value = prompt;
      fields.temperature.value = temperature;
    };
    examples.append(makeButton(name, fill));
  }
  fields.prompt.value = Object.values(page.examples)[0].prompt;
  const settings = location.hash.includes('=') ? location.hash.slice(1) : location.search; // a # alone names a place
  const absent = takeOver(fields, page, new Map(new URLSearchParams(settings))); // the last of two counts, as on the served page
  return absent.length ? `This tab can’t take over everything: ${absent.join(', ')}.` : '';
}

// Fills in a link's settings, or those nearest to them here. Returns the ones that this page has not, in words.
function takeOver(fields, { titles, methods, absent, defaults }, query) {
  const words = [];
  const instead = (name, value) => words.push(`${name} (${value} instead)`);
  for (const [name, field] of Object.entries(FIELDS)) {
    const node = fields[field],
      wanted = query.get(name) ?? '';
    if (!wanted) continue;
    if (name === 'method') {
      if (!Object.hasOwn(titles, wanted)) continue;
      node.value = methods.includes(wanted) ? wanted : methods[0];
      if (node.value !== wanted) instead(titles[wanted], node.selectedOptions[0].text);
    } else if (node.type === 'number') {
      if (Number.isNaN(Number(wanted))) continue;
      node.value = Math.min(Math.max(wanted, node.min), node.max);
      if (node.valueAsNumber !== Number(wanted)) instead(`${node.labels[0].textContent.trim()} ${wanted}`, node.value);
    } else node.value = wanted;
  }
  const gamma = query.get('auto') === '0' && query.get('gamma') ? Number(query.get('gamma')) : Number.NaN,
    nearest = Math.min(Math.max(Math.round(gamma), 1), LONGEST);
  fields.gamma.value = Number.isNaN(gamma) ? AUTO : nearest;
  if (fields.method.value !== 'none' && !Number.isNaN(gamma) && nearest !== gamma)
    instead(`Draft length γ ${gamma}`, nearest);
  const others = Object.entries(absent).filter(
    ([name]) => query.has(name) && query.get(name) !== String(defaults[name]),
  );
  return [...words, ...others.map(([, label]) => label)];
}
