// Gets the model's file: from this browser's storage, else from the address that the page named. Checks its SHA-256
// each time and stores only a file that is right.

const STORE = 'speclens-weights';

/** @typedef {{ address: string, size: number, sha256: string }} Source */

// An error with a sentence for the visitor.
export class Refusal extends Error {}

const nameOf = sha256 => `https://weights.invalid/${sha256}`; // in the store, for every address

/** @param {ArrayBuffer} bytes */
async function digestOf(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, byte => byte.toString(16).padStart(2, '0')).join('');
}

/** A browser may block its storage; then it holds nothing. @param {string} sha256 */
async function storedFile(sha256) {
  try {
    return await (await caches.open(STORE)).match(nameOf(sha256));
  } catch {
    return undefined;
  }
}
/** @param {string} sha256 */
export const isStored = async sha256 => Boolean(await storedFile(sha256));

export const remove = () => caches.delete(STORE);

/** @param {Source} source @param {(share: number) => void} progress */
async function download({ address, size }, progress) {
  // Without the browser's own cache, which would hold the file once more, and a wrong one for as long as it likes.
  const response = await fetch(address, { cache: 'no-store' }).catch(() => null);
  if (!response)
    throw new Refusal(`${new URL(address).host} could not be reached. Check the network and press Run again.`);
  if (!response.ok) throw new Refusal(`${new URL(address).host} answered ${response.status} for the model’s file.`);
  const bytes = new Uint8Array(size),
    reader = response.body.getReader();
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new Refusal('The download was interrupted. Press Run to start it again.');
    });
    if (done) break;
    if (at + value.length > size) throw new Refusal('The file is longer than the model’s; it was not kept.');
    bytes.set(value, at);
    at += value.length;
    progress(at / size);
  }
  if (at < size) throw new Refusal('The download is incomplete. Press Run to start it again.');
  return bytes.buffer;
}

/** Deletes the files that this site's engine doesn't read any more. @param {string} sha256 of the file that stays */
async function removeOthers(sha256) {
  const store = await caches.open(STORE);
  for (const { url } of await store.keys()) if (url !== nameOf(sha256)) await store.delete(url);
  return store;
}

/** Returns the file's bytes, and a sentence if the browser could not keep them.
 * @param {Source} source @param {(share: number) => void} progress */
export async function getFile(source, progress) {
  const stored = await storedFile(source.sha256);
  if (stored) {
    const bytes = await stored.arrayBuffer(),
      store = await removeOthers(source.sha256);
    if ((await digestOf(bytes)) === source.sha256) return { bytes, note: '' };
    await store.delete(nameOf(source.sha256));
  }
  const bytes = await download(source, progress);
  if ((await digestOf(bytes)) !== source.sha256)
    throw new Refusal(
      'The file is damaged, or it’s a different one (its SHA-256 differs), so it was not kept. Press Run again.',
    );
  try {
    const store = await removeOthers(source.sha256);
    await store.put(nameOf(source.sha256), new Response(bytes));
    return { bytes, note: '' };
  } catch {
    return { bytes, note: 'This browser could not keep the file, so the next visit downloads it again.' };
  }
}
