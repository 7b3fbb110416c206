// Reads what the server sends: lines of JSON. A value holds a piece of the story, and pieces overlap, because a page
// that is busy sees only the last of several values; what is already on the tape is passed over.

function makeFeed(tape, { started, arrived, told, finished, lost }) {
  let run = null, head = '', offset = 0, missing = false, over = false;

  const readers = {
    about: line => { tape.about = line; told(); },
    round(line) {
      if (line.index < tape.rounds.length) return false;
      if (line.index > tape.rounds.length) { missing = true; return false; }
      tape.add(line);
      return true;
    },
    finish: line => { if (!tape.ended) { tape.ended = line; told(); finished(); } },
    compared: line => { tape.compared = line; told(); },
    over() { over = true; },
  };

  return function read(value) {
    const lineEnd = value.indexOf('\n') + 1;
    if (!lineEnd) return;
    if (value.slice(0, lineEnd) !== head || value.length < offset) {
      head = value.slice(0, lineEnd);
      offset = lineEnd;
      const start = JSON.parse(head);
      if (start.run !== run) {
        run = start.run;
        missing = over = false;
        tape.clear();
        started();
      }
    }
    const end = value.lastIndexOf('\n') + 1;
    let added = false;
    for (const text of value.slice(offset, end).split('\n')) {
      if (!text) continue;
      const line = JSON.parse(text);
      if (readers[line.type]?.(line)) added = true;
    }
    offset = Math.max(offset, end);
    arrived(added);
    if (over && missing) { missing = false; lost(); }
  };
}
