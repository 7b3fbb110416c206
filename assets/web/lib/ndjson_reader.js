// Reads a component's value: lines of JSON, of which the first names the run. A page that is busy sees only the last of
// several values. So each value repeats some lines of the one before, and ``readers`` must pass over those they know.

/** @param {(start: { type: 'start', run: string | null, segment: number }) => void} started a run takes the place of
 *   the one before
 * @param {Record<string, (line: any) => void>} readers type of a line → what it does
 * @param {() => void} ended the value is read */
export function makeNdjsonReader(started, readers, ended) {
  let run = null,
    head = '',
    offset = 0;

  return function readValue(value) {
    const lineEnd = value.indexOf('\n') + 1;
    if (!lineEnd) return;
    if (value.slice(0, lineEnd) !== head || value.length < offset) {
      head = value.slice(0, lineEnd);
      offset = lineEnd;
      const start = JSON.parse(head);
      if (start.run && start.run !== run) {
        run = start.run;
        started(start);
      } // without a run: more about the one there is
    }
    const end = value.lastIndexOf('\n') + 1;
    for (const text of value.slice(offset, end).split('\n')) {
      const line = text && JSON.parse(text);
      if (line) readers[line.type]?.(line);
    }
    offset = Math.max(offset, end);
    ended();
  };
}
