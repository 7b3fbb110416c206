// Answers for the files of the engine in this tab once it has run, so that it opens and runs without a network. The
// model's file is not among them: the engine stores it itself.
import { PREFIX } from './kept_files.js';

/** A newer version is kept beside the older one, and takes over when no page of the older one is open.
 * @param {string} version of all files together @param {string[]} files their paths, relative to this script */
export function serve(version, files) {
  const scope = /** @type {any} */ (globalThis),
    name = PREFIX + version,
    addresses = files.map(file => new URL(file, location.href).href),
    // A host may write tab.html as tab or tab/, and send visitors there.
    file = new Map(addresses.flatMap(each => ['.html', '', '/'].map(end => [each.replace(/\.html$/, end), each])));

  async function keep() {
    const store = await caches.open(name);
    const put = async address => {
      const response = await fetch(address, { cache: 'no-cache' }); // the browser's own could be of another version
      if (!response.ok || file.get(response.url) !== address) throw new Error(address);
      await store.put(address, response.redirected ? new Response(response.body, response) : response); // to open a page
    };
    await Promise.all(addresses.map(put));
  }
  async function dropOthers() {
    const names = await caches.keys();
    await Promise.all(names.filter(other => other.startsWith(PREFIX) && other !== name).map(key => caches.delete(key)));
  }
  async function answer(request, address) {
    const stored = await caches.match(address, { cacheName: name });
    return stored ?? fetch(request);
  }

  scope.addEventListener('install', event => event.waitUntil(keep()));
  scope.addEventListener('activate', event => event.waitUntil(dropOthers()));
  scope.addEventListener('fetch', event => {
    const { origin, pathname } = new URL(event.request.url); // a link's settings change no file
    const address = file.get(origin + pathname);
    if (address) event.respondWith(answer(event.request, address));
  });
}
