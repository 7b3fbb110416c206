// Finds the token that an arrow key leads to. Knows no DOM.

// ``hides(token)``: its row is folded and does not show it.
export function neighbourOf(token, key, timeline, branch, hides) {
  return branch.on ? besideIn(token, key, timeline, branch, hides) : inRun(token, key, timeline, hides);
}

function inRun(token, key, timeline, hides) {
  const { round } = token;
  const cellsOf = number => timeline.rounds[number]?.cells;
  const cells = cellsOf(round),
    index = cells.indexOf(token);
  const isShown = other => !hides(other);
  if (key === 'ArrowRight') return cells.slice(index + 1).find(isShown) || cellsOf(round + 1)?.find(isShown);
  if (key === 'ArrowLeft') return cells.slice(0, index).findLast(isShown) || cellsOf(round - 1)?.findLast(isShown);
  return cellsOf(key === 'ArrowDown' ? round + 1 : round - 1)?.[0];
}

// With two lanes: along a row through both cells, or up and down within the lane.
function besideIn(token, key, timeline, branch, hides) {
  const row = branch.rowOf(token);
  const lanes = number => [timeline.rounds[number]?.cells || [], branch.ownIn(number)];
  if (key === 'ArrowDown' || key === 'ArrowUp')
    return lanes(row + (key === 'ArrowDown' ? 1 : -1))[token.branch ? 1 : 0][0];
  const along = [row - 1, row, row + 1].flatMap(number => lanes(number).flat()).filter(other => !hides(other));
  return along[along.indexOf(token) + (key === 'ArrowRight' ? 1 : -1)];
}
