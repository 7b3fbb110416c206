// Sets up a page without a server: light or dark like the reader's system, its height in a frame, and its data.
import { reportHeight } from './frame_height.js';

export const page = JSON.parse(document.getElementById('data').textContent);

const dark = matchMedia('(prefers-color-scheme: dark)');
const shade = () => document.body.classList.toggle('dark', dark.matches);
dark.addEventListener('change', shade);
shade();
reportHeight();

// Mounts a part as the live page does; here its value comes once, and no event reaches a server.
export function show(name, mount) {
  const element = document.getElementById(name),
    props = { value: page.values[name] };
  mount({ element, props, isOffline: true, watch() {}, trigger() {} });
}
