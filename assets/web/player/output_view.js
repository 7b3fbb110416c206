// Writes the output up to the player's position, in one text node: a step adds or removes its end. An underline says how
// each token came about.

const MOST_UNDERLINED = 3000;   // tokens; more would cost a step too much

function makeOutputView(box, timeline, frame = box) {
  const text = document.createTextNode(''), highlights = window.CSS?.highlights && window.Highlight ? CSS.highlights : null;
  let lines = [];                 // {range, status, end} of each underlined token, in order
  box.append(text);

  function highlight(name) {
    if (!highlights.has(name)) highlights.set(name, new Highlight());
    return highlights.get(name);
  }
  function rangeOf(from, to) { return new StaticRange({ startContainer: text, startOffset: from, endContainer: text, endOffset: to }); }

  // The length of the output after ``step`` steps of round ``index``.
  function lengthAt({ index, step }) {
    if (index < 0) return timeline.prefix;
    const round = timeline.rounds[index];
    let length = round.offset;
    for (const token of round.emitted) if (stageOf(round, token, step) === token.status) length += token.text.length;
    return length;
  }

  // ``most``: characters.
  function show(at, most = Infinity) {
    const length = Math.min(most, lengthAt(at)), stick = frame.scrollHeight - frame.scrollTop - frame.clientHeight < 40;
    if (length > text.length) text.appendData(timeline.textFrom(text.length, length));
    else if (length < text.length) text.deleteData(length, text.length - length);
    else return;
    underline(at.index);
    if (stick) frame.scrollTop = frame.scrollHeight;
  }

  function underline(last) {
    if (!highlights) return;
    while (lines.length && lines.at(-1).end > text.length) drop(lines.pop());
    if (timeline.forced && !lines.length && text.length >= timeline.prefix) lines.push(add('forced', timeline.prefix - timeline.forced, timeline.prefix, 0));
    if (timeline.tokensBefore(last + 1) > MOST_UNDERLINED) return;
    let at = lines.at(-1)?.end ?? 0;
    for (let index = lines.at(-1)?.round ?? 0; index <= last; index++) {
      let from = timeline.rounds[index].offset;
      for (const token of timeline.rounds[index].emitted) {
        const end = from + token.text.length;
        if (end > at && end <= text.length) lines.push(add(token.status, from, end, index));
        from = end;
      }
      at = Math.max(at, lines.at(-1)?.end ?? 0);
    }
  }
  function add(status, from, end, round) {
    const range = rangeOf(from, end);
    highlight(`sl-${status}`).add(range);
    return { range, status, end, round };
  }
  const drop = ({ status, range }) => highlight(`sl-${status}`).delete(range);

  function mark(token) {
    if (!highlights) return;
    highlights.delete('sl-locked');
    if (!token?.text || !isEmitted(token)) return;
    const round = timeline.rounds[token.round];
    let from = round.offset;
    for (const other of round.emitted) { if (other === token) break; from += other.text.length; }
    if (from + token.text.length <= text.length) highlight('sl-locked').add(rangeOf(from, from + token.text.length));
  }

  function reset() {
    text.data = '';
    if (!highlights) return;
    lines.forEach(drop);
    lines = [];
    highlights.delete('sl-locked');
  }

  return { show, mark, reset, lengthAt };
}
