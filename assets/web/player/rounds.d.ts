// What a trace has, and what timeline.js adds to it.
import type { About, Compared, Ended, Prefix } from './lines.d.ts';
import type * as Trace from './trace.d.ts';

/** Where a token of a tree is drawn. */
export interface Place {
  depth: number;
  row: number;
  /** rows below its parent's */ up: number;
  /** it closes its round, in a column of its own */ closes?: true;
  /** its place among the siblings that were tested */ among?: 'first' | 'middle' | 'last';
}

export interface Token extends Omit<Trace.Token, 'status'> {
  status: Trace.Status | 'forced' | 'forbidden';
  /** the index of its round */ round: number;
  index: number;
  /** when a draft's verdict comes */ order?: number;
  /** the text had ended before it */ isPastEnd?: boolean;
  /** the draft of a block that decides */ block?: number;
  /** it is on the path of that draft */ isChosen?: boolean;
  /** as of its round */ counted?: boolean;
  /** in a tree */ place?: Place;
  /** it is in the second lane */ branch?: boolean;
}

export type Forbidden = Token & { status: 'forbidden'; parent: number };

export interface Round extends Omit<Trace.Round, 'tokens' | 'forbidden'> {
  tokens: Token[];
  forbidden: Forbidden[];
  /** the tokens and the forbidden drafts, as they are drawn */ cells: (Token | Forbidden)[];
  /** the drafts in the order in which they are decided on */ tried: number[];
  drafts: number;
  steps: number;
  emitted: Token[];
  rejected?: Token;
  /** the last one of the rounds before */ rejectedBefore?: Token;
  /** the round that drafted a tree last, up to this one */ lastTree: number;
  /** where its text begins */ offset: number;
}

/** A round, and the steps done in it. */
export type Position = { index: number; step: number };

export interface Timeline {
  rounds: Round[];
  about: About;
  ended: Ended | null;
  compared: Compared | null;
  /** the length of the text that no round has written */ prefix: number;
  /** of that, the forced token's */ forced: number;
  steps: number;
  clear: () => void;
  begin: (line: Prefix) => void;
  add: (round: Round) => void;
  locate: (step: number) => Position;
  textFrom: (from: number, to?: number) => string;
  tokensBefore: (index: number) => number;
  startOf: (index: number) => number;
}
