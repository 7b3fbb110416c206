// Written by tests/helpers/trace_types.py from engine/trace/events.py; a test compares the two.

export type Status = 'accepted' | 'rescued' | 'rejected' | 'resampled' | 'bonus' | 'discarded' | 'plain' | 'closing';
export type Reason = 'eos' | 'stop' | 'length' | 'cancelled';
export type Candidate = [id: number, text: string, mass: number];
export interface Distribution {
  top: Candidate[];
  rest: number;
}

// A field without a value is left out, and so is a distribution that repeats another token's.
export interface Token {
  text: string;
  status: Status;
  position: number;
  id: number | null;
  label?: string;
  p?: number;
  q?: number;
  u?: number;
  accept?: number;
  gap?: number;
  running?: number;
  h?: number;
  expected?: number;
  threshold?: number;
  p_top?: Distribution;
  q_top?: Distribution;
  residual?: Distribution;
  removed?: Distribution;
  sibling?: true;
  grammar?: true;
}

// A draft that was not scored; ``parent``: the node that it would have followed, 0 being the pending token.
export interface Forbidden {
  text: string;
  position: number;
  id: number;
  parent: number;
}

export interface Round {
  index: number;
  start: number;
  end: number;
  tokens: Token[];
  accepted: number;
  tested: number;
  drafted: number;
  parents?: number[];
  row?: number;
  by?: string;
  method?: string;
  counted?: boolean;
  forbidden?: Forbidden[];
}
