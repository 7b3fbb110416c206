// The lessons as app/lessons_tab/view.py and minute.py render them.
import type { Stage } from '../../lib/statuses.js';

// ``entry``: of a word its entry in the glossary, of a claim its source, of a link its lesson or address, of a number to drag its name.
export type Span = [style: string, text: string, entry?: string];
export type Line = Span[];

export interface Block {
  kind: 'paragraph' | 'list';
  lines: Line[];
}

export interface Option {
  text: Line;
  right: boolean;
  why: Line;
}

export interface Question {
  text: Line;
  options: Option[];
}

// A prediction: ``options``, or a number within ``within`` of ``answer``, with the replies to a guess that is beyond.
export interface Ask {
  kind: string;
  text: Line;
  explain: Line;
  vote: boolean;
  options?: Option[];
  answer?: number;
  within?: number;
  unit?: string;
  share?: boolean;
  low?: Line;
  high?: Line;
}

// An experiment of the lab, and what to do there.
export interface Lab {
  name: string;
  title: string;
  hint: string;
}

// Numbers in a sentence that can be dragged, and the digits of each result of ``model``.
export interface Sentence {
  model: string;
  inputs: Record<string, unknown>;
  numbers: Record<
    string,
    { label: string; value: number; low: number; high: number; step: number; slider?: string }
  >;
  results: Record<string, number>;
}

// ``at``: the place in ``run``, and ``then`` the one after the prediction, as "2 scored"; ``dark``: how long the run is
// hidden.
export interface Step {
  title: string;
  run: string;
  at: string;
  then?: string;
  tool?: string;
  live?: boolean;
  dark: '' | 'step' | 'done';
  blocks: Block[];
  sentence?: Sentence;
  points?: { token?: [round: number, index: number]; control?: string; label?: string };
  settings: Record<string, unknown>;
  ask?: Ask;
  lab?: Lab;
}

export interface LessonEntry {
  number: number;
  slug: string;
  title: string;
  minutes: number;
  summary: string;
  part: string;
  steps: number;
}

export interface LessonPage {
  number: number;
  slug: string;
  title: string;
  minutes: number;
  outcomes: Line[];
  steps: Step[];
  quiz: Question[];
  teacher: Block[];
  runs: Record<string, { title: string; value: string }>;
  own: { note: Line; v: Record<string, number> | null; gamma: number; view: string };
  live: { values: Record<string, unknown>; hint: string } | null;
  words: Record<string, string>;
  sources: Record<string, string>; // the origin of each claim, in the order of their marks
}

// The page before the lessons. A round's ``own`` is the target's token, and ``at`` the time when the round is over.
export type MinuteToken = [text: string, status: Stage];
export interface MinuteRound {
  drafts: MinuteToken[];
  own: MinuteToken | null;
  at: number;
}
export interface Minute extends Record<'lead' | 'guess' | 'check' | 'keep' | 'end' | 'wrong' | 'wrong_end', Line> {
  title: string;
  alone: string;
  wrong_rounds: MinuteRound[];
  prompt: string;
  rounds: MinuteRound[];
  words: Record<string, string>;
}

// ``pages``: every lesson, on a site without a server, which has ``playground`` in place of that tab.
export interface LessonsValue {
  lessons: LessonEntry[];
  solutions: boolean;
  pages?: Record<string, LessonPage>;
  minute?: Minute;
  papers?: Record<string, string>;
  practice?: { kinds: any[]; words: Record<string, string>; hasKey: boolean }; // as practice_numbers.js draws them
  rule?: any; // the exercise of rule_grade.js
  playground?: { href: string; title: string };
}
