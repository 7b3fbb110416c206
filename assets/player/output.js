// The clean text, up to where the story is told, in one text node: a step adds or takes away its end.

function makeOutput(box, tape) {
  const text = document.createTextNode('');
  box.append(text);
  const highlights = window.CSS?.highlights && window.Highlight ? CSS.highlights : null;

  // Characters of the output that are told after ``step`` steps of round ``index``.
  function told(index, step) {
    if (index < 0) return 0;
    const round = tape.rounds[index];
    let length = round.offset;
    for (const token of round.emitted) if (stageOf(round, token, step) === token.status) length += token.text.length;
    return length;
  }

  function show({ index, step }) {
    const length = told(index, step), stick = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    if (length > text.length) text.appendData(tape.textFrom(text.length, length));
    else if (length < text.length) text.deleteData(length, text.length - length);
    else return;
    if (stick) box.scrollTop = box.scrollHeight;
  }

  function mark(token) {
    if (!highlights) return;
    highlights.delete('sl-locked');
    if (!token?.text || DRAFTED.slice(1).includes(token.status)) return;
    const round = tape.rounds[token.round];
    let from = round.offset;
    for (const other of round.emitted) { if (other === token) break; from += other.text.length; }
    if (from + token.text.length > text.length) return;
    const range = new Range();
    range.setStart(text, from);
    range.setEnd(text, from + token.text.length);
    highlights.set('sl-locked', new Highlight(range));
  }

  return { show, mark, reset() { text.data = ''; highlights?.delete('sl-locked'); } };
}
