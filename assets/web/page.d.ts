// What the parts of the page share: the events by which they tell each other, and what only some browsers have.
import type { Place } from './player/player.js';
import type { Token } from './player/rounds.d.ts';

declare global {
  interface DocumentEventMap {
    'speclens-playhead': CustomEvent<Place>; // the player's place, for the tab of trees
    'speclens-ask-playhead': CustomEvent;
    'speclens-to-round': CustomEvent<number>;
    'speclens-inspect': CustomEvent<Token>;
    'speclens-place': CustomEvent<number | null>; // runs before the visitor's
    'speclens-form': CustomEvent<{ id: string; values: unknown[] }>; // the values of an experiment's form
    'speclens-here': CustomEvent<unknown[]>; // the values of all controls
  }
  interface Window {
    Plotly?: { react: (...of: unknown[]) => Promise<unknown>; purge: (plot: Element) => void; Plots: { resize: (plot: Element) => Promise<unknown> } };
  }
  interface Navigator {
    deviceMemory?: number; // GB, in Chromium
  }
}
