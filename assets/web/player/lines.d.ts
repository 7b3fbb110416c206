// The server's lines as app/views/player_feed.py writes them, and what reader.js tells the page about them.

export type ForcedToken = { id: number; text: string; label?: string };

/** The text that the output begins with, the number of its tokens, and the forced token after it. */
export type Prefix = { text: string; place: number; forced: ForcedToken };

/** The lines about a run. */
export interface About {
  greedy?: boolean;
  /** its pair, method and settings */ words?: string;
  /** how auto chose */ why?: string;
  recorded?: boolean;
  prompt?: string;
  temperature?: number;
  /** ``once``: c is paid once a round */ costs?: { c: number; v: Record<string, number>; once: boolean } | null;
  /** tokens asked for */ most?: number;
  /** drafts are decided on together */ block?: true;
  constraint?: string;
  lossy?: string;
  method?: string;
  /** how each drafter guesses that auto chooses from, by its method */ drafters?: Record<string, string>;
  /** the method's own */ settings?: Record<string, number>;
  /** the target's layers that guess, and all */ exit?: [number, number];
  /** the distributions are left out */ lean?: true;
  /** where a file comes from */ origin?: string;
  /** the server's title */ source?: string;
  /** what a server did not tell */ server?: string[];
  /** whether a server counted its drafts */ counted?: boolean;
  prefix?: Prefix;
}

export type Ended = { reason: string; tokens: number; notes?: string };
export type Compared = { verdict: string; at?: number; gap?: number | null };

/** The run without drafts. One that goes on does not have the last two yet. */
export interface Plain {
  seconds: number;
  tokens: number;
  /** the time at which each round ended */ ends?: number[];
  /** the tokens by then */ counts?: number[];
}

export interface Numbers {
  /** a number and its words, by the tile */ tiles: Record<string, [string, string]>;
  plain?: Plain;
  measuring?: boolean;
  note?: string;
  /** how the speedup is coloured */ tone?: string;
  /** it ran beside others */ shared?: boolean;
}

export interface Status {
  kind: string;
  text?: string;
  /** of the progress */ fraction?: number;
  /** the figures are those of the run before */ old?: boolean;
  /** runs before the visitor's */ place?: number;
}

/** The last numbers and status of a value, and whether it brought rounds. */
export interface News {
  hasRounds?: boolean;
  hasBranchRounds?: boolean;
  numbers?: Numbers;
  status?: Status;
}

type Moment = 'started' | 'about' | 'finished' | 'labelled' | 'branched' | 'branchEnded';

/** A function for each line. */
export interface Events extends Record<Moment, () => void> {
  /** after a run of which rounds were lost on the way */ missing: () => void;
  /** at the end of each value */ arrived: (news: News) => void;
}
