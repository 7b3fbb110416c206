// Holds the player's position, in steps of the timeline, and the clock that moves it. Knows no DOM.
//
// A round lasts on screen as long as it took, times the pace; its steps share that time evenly.

export const PACES = [1 / 500, 1 / 200, 1 / 100, 1 / 50, 1 / 20, 1 / 10, 1 / 5, 1 / 2, 1, 2, 5];
const COMFORT = 1.4; // seconds a round needs to be followed easily

/** What moved or changed the place: the reader, another pace, or the page itself (its clock, new rounds).
 * @typedef {'reader' | 'pace' | 'page'} Mover */
/** @param {import('./rounds.d.ts').Timeline} timeline */
export function makePlayback(timeline) {
  /** @type {(by: Mover) => void} */
  let tell = () => {};
  let at = 0;
  let playing = false;
  let live = false; // it follows a run that goes on
  let pace = 1 / 20;
  let chosen = false; // by the reader
  let before = 0; // when the last frame was, in ms
  let spent = 0; // seconds that no step has used yet
  let timer = null;
  let request = null;

  /** @param {number} index of a round */
  const seconds = index => {
    const { start, end } = timeline.rounds[index],
      next = timeline.rounds[index + 1];
    return Math.max(1e-3, (next ? next.start : end) - start);
  };

  /** @param {number} to @param {Mover} by */
  function move(to, by) {
    const bounded = Math.max(0, Math.min(to, timeline.steps));
    if (by === 'reader') {
      live = false;
      pause();
    }
    at = bounded;
    tell(by);
  }

  function frame() {
    if (!playing) return;
    const now = performance.now();
    spent += Math.min(0.25, (now - before) / 1000) * pace; // no jump after a tab was asleep
    before = now;
    let to = at,
      cost = 0;
    while (to < timeline.steps) {
      const { index } = timeline.locate(to + 1);
      cost = seconds(index) / timeline.rounds[index].steps;
      if (cost > spent) break;
      spent -= cost;
      to++;
    }
    if (to !== at) {
      at = to;
      tell('page');
    }
    if (at >= timeline.steps) return stopAtEnd();
    waitFor((cost - spent) / pace);
  }

  // Sleeps until the next step is due, because a browser that is called at every frame is never at rest.
  function waitFor(rest) {
    clearTimeout(timer);
    cancelAnimationFrame(request);
    if (rest > 0.03) timer = setTimeout(waitFor, 1000 * Math.min(0.2, rest - 0.016), 0);
    else request = requestAnimationFrame(frame);
  }

  function stopAtEnd() {
    playing = false;
    live = !timeline.ended; // caught up with a run that still goes on
    tell('page');
  }

  function play() {
    if (playing || !timeline.steps) return;
    if (at >= timeline.steps) {
      if (!timeline.ended) {
        live = true;
        return tell('reader');
      }
      at = 0; // again from the start
    }
    playing = true;
    live = false;
    spent = 0;
    before = performance.now();
    waitFor(0);
    tell('page');
  }

  function pause() {
    playing = live = false;
  }

  // Picks the pace at which a median round takes COMFORT seconds, or ``rate``, unless the reader has chosen one.
  function settle(rate) {
    if (chosen) return;
    if (rate) {
      pace = rate;
      return;
    }
    const all = timeline.rounds.map((_, index) => seconds(index)).sort((a, b) => a - b);
    const want = (all[all.length >> 1] || 0.05) / COMFORT;
    pace = PACES.reduce((best, notch) =>
      Math.abs(Math.log(notch / want)) < Math.abs(Math.log(best / want)) ? notch : best,
    );
  }

  function round(step) {
    const here = timeline.locate(at),
      inside = here.index >= 0 && here.step < timeline.rounds[here.index].steps;
    if (step > 0) return move(inside ? timeline.startOf(here.index + 1) : timeline.startOf(here.index + 2), 'reader');
    return move(timeline.startOf(here.index), 'reader');
  }

  return {
    play,
    pause,
    settle,
    round,
    move,
    /** @param {(by: Mover) => void} callback is called after each change */
    listen(callback) {
      tell = callback;
    },
    redraw: () => tell('page'),
    toggle() {
      if (playing || live) {
        pause();
        tell('reader');
      } else play();
    },
    step: by => move(at + by, 'reader'),
    toStart: () => move(0, 'reader'),
    toEnd() {
      move(timeline.steps, 'reader');
      if (!timeline.ended) {
        live = true;
        tell('reader');
      }
    },
    follow() {
      playing = false;
      live = !timeline.ended;
      at = timeline.steps;
      tell('page');
    },
    arrivals() {
      if (live) {
        at = timeline.steps;
        live = !timeline.ended;
      }
      tell('page');
    },
    reset() {
      at = 0;
      playing = live = false;
    },
    get at() {
      return at;
    },
    get playing() {
      return playing;
    },
    get live() {
      return live;
    },
    get pace() {
      return pace;
    },
    set pace(value) {
      pace = value;
      chosen = true;
      tell('pace');
    },
  };
}
