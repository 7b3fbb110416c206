// Reads the server's lines into the timelines of the run and of its branch. Knows no DOM.
/** @import { About, Compared, Ended, Events, News, Numbers, Prefix, Status } from './lines.d.ts' */
/** @import { Round, Timeline } from './rounds.d.ts' */
import { makeNdjsonReader } from '../lib/ndjson_reader.js';

/** @param {Timeline} timeline @param {ReturnType<typeof import('./branch.js').makeBranch>} branch @param {Events} on */
export function makeReader(timeline, branch, on) {
  let isMissing = false,
    isOver = false;
  /** @type {News} */
  let news = {};

  /** @param {{ rounds: Round[], add: (round: Round) => void }} lane @param {Round} round */
  function add(lane, round) {
    if (round.index > lane.rounds.length) isMissing = true;
    if (round.index !== lane.rounds.length) return false;
    lane.add(round);
    return true;
  }

  function beginRun() {
    isMissing = isOver = false;
    on.started();
  }

  function endValue() {
    const came = news;
    news = {};
    on.arrived(came);
    if (!isOver || !isMissing) return;
    isMissing = false;
    on.missing();
  }

  const readValue = makeNdjsonReader(
    beginRun,
    {
      /** @param {About} line */
      about(line) {
        timeline.about = line;
        if (line.prefix && !timeline.rounds.length) timeline.begin(line.prefix);
        on.about();
      },
      /** @param {Round} line */
      round(line) {
        if (add(timeline, line)) news.hasRounds = true;
      },
      /** @param {Ended} line */
      finish(line) {
        if (timeline.ended) return;
        timeline.ended = line;
        on.finished();
      },
      /** @param {About} line */
      chosen({ words, why }) {
        Object.assign(timeline.about, { words, why });
        on.labelled();
      },
      /** @param {Compared} line */
      compared(line) {
        timeline.compared = line;
        on.labelled();
      },
      /** @param {Prefix & { key: string }} line */
      branch(line) {
        if (branch.begin(line)) on.branched();
      },
      /** @param {Round} line */
      branch_round(line) {
        if (branch.on && add(branch, line)) news.hasBranchRounds = true;
      },
      /** @param {Ended} line */
      branch_finish(line) {
        if (!branch.on) return;
        branch.ended = line;
        news.hasBranchRounds = true;
        on.branchEnded();
      },
      /** @param {Numbers} line */
      numbers(line) {
        news.numbers = line;
      },
      /** @param {Status} line */
      status(line) {
        news.status = line;
      },
      over() {
        isOver = true;
      },
    },
    endValue,
  );

  /** @param {string} value */
  return value => {
    if (value) readValue(value);
  };
}
