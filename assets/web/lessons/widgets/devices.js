// Lets the reader choose the model and the device of the calculators.
import { readObject, storeObject } from '../../lib/storage.js';
import { DEVICES, MODELS } from './device_figures.js';
import { picker, short } from './widgets.js';

export const PRECISIONS_OF_WEIGHTS = {
  'fp32, 4 bytes a weight': 4,
  'bf16, 2 bytes': 2,
  '8-bit, 1 byte': 1,
  '4-bit, half a byte': 0.5,
};

// The next calculator begins with the choices of this one, which only this browser stores.
const KEY = 'speclens-calculator';
const choices = readObject(KEY);

// ``options``: [words, value, key]. ``kept``: under which name the key of the choice is kept.
function keptPicker(label, kept, options, first) {
  const index = key => options.findIndex(option => option[2] === key);
  const known = index(choices[kept]);
  const list = picker(label, options, known < 0 ? index(first) : known);
  list.row.addEventListener('input', () => {
    choices[kept] = options[list.index][2];
    storeObject(KEY, choices);
  });
  return list;
}

export const chosenModel = label =>
  keptPicker(
    label,
    'model',
    Object.entries(MODELS).map(([name, model]) => [name, model, name]),
    'Llama 3.1 8B',
  );
export const chosenWidth = (label, widths) =>
  keptPicker(
    label,
    'width',
    Object.entries(widths).map(([words, bytes]) => [words, bytes, bytes]),
    2,
  );
const deviceWords = (name, { memory, speed }) =>
  `${name}: ${memory ? `${memory} GB at ` : ''}${Number(short(speed)).toLocaleString('en')} GB/s`;
export const chosenDevice = (label, devices = DEVICES) =>
  keptPicker(
    label,
    'device',
    Object.entries(devices).map(([name, device]) => [deviceWords(name, device), device, name]),
    'RTX 4090',
  );

// GB of a key and a value of 16 bits for every token, layer and key-value head.
export const cacheOf = (model, tokens) =>
  model ? (2 * model.layers * model.heads * model.size * 2 * tokens) / 1e9 : 0;
