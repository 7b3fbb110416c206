// Groups the rounds into rows: neighbouring plain rounds share one, every other round has its own. Knows no DOM.
import { lastWhere } from '../lib/search.js';

const STRIP = 24; // plain rounds in one row

export const isPlain = round => round.drafts === 0 && !round.forbidden.length;

export function makeRoundRows(timeline, branch) {
  let rows = []; // {from, to}: the rounds of a row, `to` not included; past the run's end the branch's
  const end = () => rows.at(-1)?.to ?? 0;

  // Extends the rows by the rounds that are new: a plain round joins the row of its plain neighbours.
  function extend() {
    for (let next = end(); next < Math.max(timeline.rounds.length, branch.rowCount); next++) {
      const last = rows.at(-1),
        isAlone = branch.on && next >= branch.from;
      const joins =
        last &&
        !isAlone &&
        isPlain(timeline.rounds[next]) &&
        isPlain(timeline.rounds[last.from]) &&
        next - last.from < STRIP;
      if (joins) last.to = next + 1;
      else rows.push({ from: next, to: next + 1 });
    }
  }

  // The number of the row that holds the round ``index``.
  const indexOf = index => lastWhere(rows.length, number => rows[number].from <= index);

  return {
    extend,
    indexOf,
    range: number => rows[number],
    clear() {
      rows = [];
    },
    get count() {
      return rows.length;
    },
    get end() {
      return end();
    },
  };
}
