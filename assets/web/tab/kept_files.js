// Keeps the engine's page and files in this browser, and deletes them.

export const PREFIX = 'speclens-engine-'; // of the stores that have them, one for each version

/** Without a service worker (a private window, or a browser that blocks it) the page works as before, with a network.
 * @param {any} script */
export const keepFiles = script => navigator.serviceWorker?.register(script).catch(() => {});

export const isOffline = () => Boolean(navigator.serviceWorker?.controller);

/** @param {string} script its address */
export async function deleteFiles(script) {
  const registration = await navigator.serviceWorker?.getRegistration(script);
  if (registration?.active?.scriptURL !== script) return; // another page's
  await registration.unregister();
  for (const name of await caches.keys()) if (name.startsWith(PREFIX)) await caches.delete(name);
}
