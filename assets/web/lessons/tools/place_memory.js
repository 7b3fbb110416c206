// Says what a model's memory holds after a pass over drafts, by its kind. Knows no DOM.

export const MEMORIES = [
  ['a slot for each token (attention)', 'cache'],
  ['one running state', 'state'],
  ['one running state, saved at every place', 'copies'],
];

// ``pass``: the words before it (``earlier``), its rows (``read``), whether it ``ran``, and the judgement: the accepted
// ``path`` and the rows' ``states``, or null for both. Returns { slots: [[word, state, words], …], says }.
export function memoryAfter(kind, pass) {
  return { cache: slotsOfCache, state: oneState, copies: savedStates }[kind](pass);
}

function slotsOfCache({ earlier, read, ran, path, states }) {
  function slotState(i) {
    if (!ran) return ['empty', 'empty'];
    return states && states[i] !== 'accepted' ? ['cut', 'cut off'] : ['new', 'filled by this pass'];
  }
  return {
    slots: [
      ...earlier.map(word => [word, 'old', 'from earlier passes']),
      ...read.map((word, i) => [word, ...slotState(i)]),
    ],
    says: path
      ? `The cache now holds ${earlier.length + path.length} of ${earlier.length + read.length} slots; the next pass reads the new token.`
      : '',
  };
}

function oneState({ earlier, read, ran, path }) {
  const words = ran ? [...earlier, ...read] : earlier,
    isSpoiled = Boolean(path) && path.length < read.length,
    again = path?.length === 1 ? 'one token' : `${path?.length} tokens`;
  if (isSpoiled)
    return {
      slots: [[words.join(' '), 'cut', 'holds a rejected draft']],
      says: `A rejected draft is mixed into the state, and nothing can be taken out of it. The engine goes back to the state before the round and reads ${again} again.`,
    };
  return {
    slots: [[words.join(' '), ran ? 'new' : 'old', 'one state']],
    says: path ? 'All of it was accepted, so the next pass goes on from this state.' : '',
  };
}

function savedStates({ earlier, read, ran, path }) {
  const last = path?.[path.length - 1];
  function kindOf(i) {
    if (!ran) return ['empty', 'empty'];
    return path && i !== last ? ['cut', 'not needed'] : ['new', 'the state after this token'];
  }
  return {
    slots: [
      ...(earlier.length && !ran ? [[earlier.join(' '), 'old', 'the state before the pass']] : []),
      ...read.map((word, i) => [`… ${word}`, ...kindOf(i)]),
    ],
    says: path
      ? `The engine goes on from the state it saved after “${read[last]}”. Nothing is read again; that costs ${read.length} states of memory instead of one.`
      : '',
  };
}
