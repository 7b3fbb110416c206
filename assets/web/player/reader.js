// Reads the server's lines into the timelines of the run and of its branch. Knows no DOM.
// @ts-check
/** @import { Round, Timeline } from './timeline.js' */
import { makeNdjsonReader } from '../lib/ndjson_reader.js';

// ``on`` has a function for each event: ``started``, ``about``, ``finished(line)``, ``labelled``, ``branched``,
// ``branchEnded``; ``missing``, after a run of which rounds were lost on the way; and at the end of each value
// ``arrived({hasRounds, hasBranchRounds, numbers, status})`` with the last numbers and status.
/** @param {Timeline} timeline @param {ReturnType<typeof import('./branch.js').makeBranch>} branch @param {Record<string, (line?: any) => void>} on */
export function makeReader(timeline, branch, on) {
  let isMissing = false,
    isOver = false;
  /** @type {{ hasRounds?: boolean, hasBranchRounds?: boolean, numbers?: object, status?: object }} */
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
      about(line) {
        timeline.about = line;
        if (line.prefix && !timeline.rounds.length) timeline.begin(line.prefix);
        on.about();
      },
      /** @param {Round} line */
      round(line) {
        if (add(timeline, line)) news.hasRounds = true;
      },
      finish(line) {
        if (timeline.ended) return;
        timeline.ended = line;
        on.finished(line);
      },
      chosen({ words, why }) {
        Object.assign(timeline.about, { words, why });
        on.labelled();
      },
      compared(line) {
        timeline.compared = line;
        on.labelled();
      },
      branch(line) {
        if (branch.begin(line)) on.branched();
      },
      /** @param {Round} line */
      branch_round(line) {
        if (branch.on && add(branch, line)) news.hasBranchRounds = true;
      },
      branch_finish(line) {
        if (!branch.on) return;
        branch.ended = line;
        news.hasBranchRounds = true;
        on.branchEnded();
      },
      numbers(line) {
        news.numbers = line;
      },
      status(line) {
        news.status = line;
      },
      over() {
        isOver = true;
      },
    },
    endValue,
  );

  return value => {
    if (value) readValue(value);
  };
}
