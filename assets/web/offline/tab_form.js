// Reads and fills the form of the engine in this tab: its settings, its examples, and links that carry them.
import { copyText } from '../lib/copy_button.js';
import { make, makeButton } from '../lib/dom.js';

// The form's fields by their names in a link of the served page.
const FIELDS = {
  prompt: 'prompt',
  method: 'method',
  gamma: 'gamma',
  temperature: 'temperature',
  seed: 'seed',
  tokens: 'max_new_tokens',
};
const AUTO = 'auto',
  LONGEST = 16; // γ
const LABEL_STAYS = 3000; // milliseconds

// A run's settings as a trace has them. ``defaults``: of what the form doesn't ask for.
export function configOf(fields, defaults, method) {
  const number = name => Number(fields[name].value),
    sampling = { ...defaults.sampling, temperature: number('temperature') },
    gamma = method === 'none' ? 0 : fields.gamma.value === AUTO ? AUTO : number('gamma');
  const [prompt, seed, max_new_tokens] = [fields.prompt.value, number('seed'), number('max_new_tokens')];
  return { ...defaults, prompt, method, gamma, sampling, seed, max_new_tokens };
}

const linkOf = (fields, base) =>
  new URL(
    `?${new URLSearchParams({
      auto: '0',
      ...Object.fromEntries(Object.entries(FIELDS).map(([name, field]) => [name, fields[field].value])),
    })}`,
    base,
  ).href;

export function offerLink(button, fields) {
  const label = button.textContent;
  button.addEventListener('click', async () => {
    const link = linkOf(fields, location.href);
    history.replaceState(null, '', link);
    button.textContent = await copyText(link, () => 'The link is in the address bar');
    setTimeout(() => Object.assign(button, { textContent: label }), LABEL_STAYS);
  });
}

// Lists the methods and examples, and takes over what the page's own address says.
export function fillForm(fields, examples, page) {
  for (const [name, title] of Object.entries(page.titles))
    fields.method.append(make('option', '', title, { value: name }));
  for (let gamma = 1; gamma <= LONGEST; gamma++) fields.gamma.append(make('option', '', gamma));
  for (const [name, { prompt, temperature }] of Object.entries(page.examples)) {
    const fill = () =>
      Object.assign(fields.prompt, { value: prompt }) && Object.assign(fields.temperature, { value: temperature });
    examples.append(makeButton(name, fill));
  }
  fields.prompt.value = Object.values(page.examples)[0].prompt;
  const query = new URLSearchParams(location.search);
  for (const [name, field] of Object.entries(FIELDS)) if (query.has(name)) fields[field].value = query.get(name);
  // The link may have named a method or a length that only the served page has.
  fields.method.value ||= Object.keys(page.titles)[0];
  fields.gamma.value ||= AUTO;
}
