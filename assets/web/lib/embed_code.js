// Makes the box with the code that shows a page in a frame of another page.
import { copyText } from './copy_button.js';
import { make, makeButton } from './dom.js';
import { isOwnMachine } from './own_machine.js';

const HEIGHT = 760; // of the frame where the page around it runs no script

// Sets the height of the frame that a message comes from; docs/publishing.md describes the message.
const LISTENER =
  'addEventListener("message", ({ data, source }) => { if (data?.type !== "speclens-height") return; ' +
  'for (const frame of document.querySelectorAll("iframe")) ' +
  'if (frame.contentWindow === source) frame.height = data.height; });';

const TAG = 'script'; // not written out, because a page may hold this file within one

const quote = text => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');

// ``title``: what a screen reader says of the frame.
function embedCode(address, title) {
  const frame = `<iframe src="${quote(address)}" title="${quote(title)}" sandbox="allow-scripts" loading="lazy"`;
  return `${frame}\n  width="100%" height="${HEIGHT}" style="border: 0"></iframe>\n<${TAG}>${LISTENER}</${TAG}>\n`;
}

// ``address``: the page to show. A file from disk has none that others can open, so the code names the file.
export function makeEmbed(address, title) {
  const { protocol, pathname, hostname } = new URL(address, location.href),
    isFile = protocol === 'file:',
    place = isFile ? decodeURIComponent(pathname.split('/').pop()) : address;
  const code = make('pre', 'sl-embed-code', embedCode(place, title), { tabindex: '0', 'aria-label': 'Code to copy' });
  const said = make('span', '', '', { role: 'status' });
  const copy = makeButton('Copy the code', async () => {
    said.textContent = `${await copyText(code.textContent, () => getSelection().selectAllChildren(code))}.`;
  });
  const warning = isOwnMachine(hostname) ? ' But only this computer can open the address in it.' : '',
    where = isFile ? ' Put this file beside your page first.' : warning;
  const words = `It runs by itself in a sandbox, light or dark like its reader’s system, and the second line fits the frame to it. Leave that out where no script is allowed.${where}`;
  return make('details', 'sl-embed', [
    make('summary', '', 'Put this on your own page'),
    make('p', '', words),
    code,
    make('p', 'sl-buttons', [copy, ' ', said]),
  ]);
}
