// Writes the output up to the player's position, in one text node: a step adds or removes its end.

function makeOutputView(box, timeline) {
  const text = document.createTextNode('');
  box.append(text);
  const highlights = window.CSS?.highlights && window.Highlight ? CSS.highlights : null;

  // The length of the output after ``step`` steps of round ``index``.
  function lengthAt(index, step) {
    if (index < 0) return 0;
    const round = timeline.rounds[index];
    let length = round.offset;
    for (const token of round.emitted) if (stageOf(round, token, step) === token.status) length += token.text.length;
    return length;
  }

  function show({ index, step }) {
    const length = lengthAt(index, step), stick = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    if (length > text.length) text.appendData(timeline.textFrom(text.length, length));
    else if (length < text.length) text.deleteData(length, text.length - length);
    else return;
    if (stick) box.scrollTop = box.scrollHeight;
  }

  function mark(token) {
    if (!highlights) return;
    highlights.delete('sl-locked');
    if (!token?.text || !isEmitted(token)) return;
    const round = timeline.rounds[token.round];
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
