// Where the story stands, in steps of the tape, and the clock that moves it. Knows no DOM.
//
// A round lasts on screen as long as it took, times the pace; its steps share that time evenly.

const PACES = [1 / 500, 1 / 200, 1 / 100, 1 / 50, 1 / 20, 1 / 10, 1 / 5, 1 / 2, 1, 2, 5];
const COMFORT = 1.4;     // seconds in which a round is easily followed

function makePlayhead(tape, changed) {
  let at = 0, playing = false, live = false, pace = 1 / 20;
  let before = 0, spent = 0, chosen = false;

  const seconds = index => {
    const { start, end } = tape.rounds[index], next = tape.rounds[index + 1];
    return Math.max(1e-3, (next ? next.start : end) - start);
  };

  function move(to, by) {
    const bounded = Math.max(0, Math.min(to, tape.steps));
    if (by === 'reader') { live = false; pause(); }
    at = bounded;
    changed(by);
  }

  function frame(now) {
    if (!playing) return;
    const passed = Math.min(0.25, (now - before) / 1000);    // a tab that slept does not jump
    before = now;
    spent += passed * pace;
    let to = at;
    while (to < tape.steps) {
      const { index } = tape.locate(to + 1), cost = seconds(index) / tape.rounds[index].steps;
      if (cost > spent) break;
      spent -= cost;
      to++;
    }
    if (to !== at) { at = to; changed('clock'); }
    if (at >= tape.steps) return arrived();
    requestAnimationFrame(frame);
  }

  function arrived() {
    playing = false;
    live = !tape.ended;          // caught up with a run that still goes on
    changed('clock');
  }

  function play() {
    if (playing || !tape.steps) return;
    if (at >= tape.steps) {
      if (!tape.ended) { live = true; return changed('reader'); }
      at = 0;                    // from the top, as every player does
    }
    playing = true;
    live = false;
    spent = 0;
    before = performance.now();
    requestAnimationFrame(frame);
    changed('clock');
  }

  function pause() {
    playing = live = false;
  }

  // The notch at which a typical round takes about as long as one can follow, unless the reader has chosen another.
  function settle() {
    if (chosen) return;
    const all = tape.rounds.map((_, index) => seconds(index)).sort((a, b) => a - b);
    const want = (all[all.length >> 1] || 0.05) / COMFORT;
    pace = PACES.reduce((best, notch) => Math.abs(Math.log(notch / want)) < Math.abs(Math.log(best / want)) ? notch : best);
  }

  function round(step) {
    const here = tape.locate(at), inside = here.index >= 0 && here.step < tape.rounds[here.index].steps;
    if (step > 0) return move(inside ? tape.startOf(here.index + 1) : tape.startOf(here.index + 2), 'reader');
    return move(tape.startOf(here.index), 'reader');
  }

  return {
    play, pause, settle, round, move,
    toggle() { if (playing || live) { pause(); changed('reader'); } else play(); },
    step: by => move(at + by, 'reader'),
    toStart: () => move(0, 'reader'),
    toEnd() { move(tape.steps, 'reader'); if (!tape.ended) { live = true; changed('reader'); } },
    follow() { playing = false; live = !tape.ended; at = tape.steps; changed('clock'); },
    arrivals() { if (live) { at = tape.steps; live = !tape.ended; changed('clock'); } else changed('news'); },
    reset() { at = 0; playing = live = false; },
    get at() { return at; },
    get playing() { return playing; },
    get live() { return live; },
    get pace() { return pace; },
    set pace(value) { pace = value; chosen = true; changed('pace'); },
  };
}
