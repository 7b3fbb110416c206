// The tools of the lessons, by the name that a step gives its tool. Each is ``(settings, touched)`` → its element;
// ``touched()``: the learner has changed something.
import { makeAcceptanceLog } from './acceptance_log.js';
import { makeBatching } from './batching.js';
import { makeBudget } from './budget.js';
import { makeBursts } from './bursts.js';
import { makeCost } from './cost.js';
import { makeCurve } from './curve.js';
import { makeDrafters } from './drafters.js';
import { makeDuel } from './duel.js';
import { makeExperts } from './experts.js';
import { makeFloatSums } from './float_sums.js';
import { makeFormulaBlocks } from './formula_blocks.js';
import { makeGrowTree } from './grow_tree.js';
import { makeGuessWords } from './guess_words.js';
import { makeJsonMasks } from './json_masks.js';
import { makeKindsOfText } from './kinds_of_text.js';
import { makeMemory } from './memory.js';
import { makeOverlap } from './overlap.js';
import { makeOwnText } from './own_text.js';
import { makePassPicture } from './pass_picture.js';
import { makePassPlaces } from './pass_places.js';
import { makeRecipe } from './recipe.js';
import { makeRejectionDemo } from './rejection_demo.js';
import { makeReports } from './reports.js';
import { makeRoofline } from './roofline.js';
import { makeMystery, makeRuler } from './ruler.js';
import { makeTemperature } from './temperature.js';
import { makeTokenizerMismatch } from './tokenizer_mismatch.js';
import { makeUnknownRuns } from './unknown_runs.js';

export const TOOLS = {
  roofline: makeRoofline,
  heat: makeTemperature,
  duel: makeDuel,
  log: makeAcceptanceLog,
  overlap: makeOverlap,
  places: makePassPlaces,
  dice: makeRejectionDemo,
  curve: makeCurve,
  blocks: makeFormulaBlocks,
  memory: makeMemory,
  crowd: makeBatching,
  budget: makeBudget,
  bursts: makeBursts,
  json: makeJsonMasks,
  unknown: makeUnknownRuns,
  cuts: makeTokenizerMismatch,
  adding: makeFloatSums,
  price: makeCost,
  grow: makeGrowTree,
  recipe: makeRecipe,
  drafters: makeDrafters,
  experts: makeExperts,
  own: makeOwnText,
  pass: makePassPicture,
  guess: makeGuessWords,
  kinds: makeKindsOfText,
  ruler: makeRuler,
  mystery: makeMystery,
  reports: makeReports,
};
