// The tools of the lessons, by the names that a step gives them. Each is ``(settings, touched)`` → its element;
// ``touched()``: the learner has changed something. TOOLS of lessons/schema.py has the same names.
import { makeWriteRule } from '../rule/write_rule.js';
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
import { makeHeat } from './heat.js';
import { makeJsonMasks } from './json_masks.js';
import { makeKindsOfText } from './kinds_of_text.js';
import { makeMemory } from './memory.js';
import { makeOverlap } from './overlap.js';
import { makeOwnNumbers } from './own_numbers.js';
import { makeOwnText } from './own_text.js';
import { makeParting } from './parting.js';
import { makePassPicture } from './pass_picture.js';
import { makePassPlaces } from './pass_places.js';
import { makePromptBar } from './prompt_bar.js';
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
  temperature: makeTemperature,
  duel: makeDuel,
  acceptance_log: makeAcceptanceLog,
  overlap: makeOverlap,
  pass_places: makePassPlaces,
  rejection_demo: makeRejectionDemo,
  curve: makeCurve,
  formula_blocks: makeFormulaBlocks,
  memory: makeMemory,
  batching: makeBatching,
  budget: makeBudget,
  bursts: makeBursts,
  json_masks: makeJsonMasks,
  unknown_runs: makeUnknownRuns,
  tokenizer_mismatch: makeTokenizerMismatch,
  float_sums: makeFloatSums,
  cost: makeCost,
  grow_tree: makeGrowTree,
  recipe: makeRecipe,
  drafters: makeDrafters,
  experts: makeExperts,
  own_numbers: makeOwnNumbers,
  own_text: makeOwnText,
  parting: makeParting,
  pass_picture: makePassPicture,
  prompt_bar: makePromptBar,
  guess_words: makeGuessWords,
  kinds_of_text: makeKindsOfText,
  heat: makeHeat,
  ruler: makeRuler,
  mystery: makeMystery,
  reports: makeReports,
  write_rule: makeWriteRule,
};
