// Shows the lessons of the site without a server, presents them, and shows the address of the open one to phones.
import { mount } from '../lessons/page/lesson.js';
import { showCode } from '../lib/code_dialog.js';
import { isOwnMachine } from '../lib/own_machine.js';
import { makePresenting } from '../lib/presenting.js';
import { show } from './page.js';

const ALONE =
  'Only this computer can open this copy. Put its folder on a web host and open it there, and this button shows a QR code of the address; or give the folder to each student. The option --no-solutions makes one for a class.';

show('lesson', mount);
const present = makePresenting(document.querySelector('[data-share="present"]'));
document.querySelector('[data-share="qr"]').addEventListener('click', () => {
  const { origin, pathname, hash, hostname, protocol } = location,
    isShared = protocol.startsWith('http') && !isOwnMachine(hostname);
  showCode(document.body, `${origin}${pathname}${hash}`, isShared ? '' : ALONE);
});
if (new URLSearchParams(location.search).has('present')) present(true); // "Open it for the projector"
