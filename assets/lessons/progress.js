// How far the learner is, kept in this browser alone. A browser that keeps nothing still plays every lesson.

function makeProgress(key = 'speclens-lessons') {
  let kept = {};
  try { kept = JSON.parse(localStorage.getItem(key)) || {}; } catch { /* nothing kept, or not by us */ }
  if (typeof kept !== 'object' || Array.isArray(kept)) kept = {};
  const save = () => { try { localStorage.setItem(key, JSON.stringify(kept)); } catch { /* not allowed here */ } };
  const of = slug => { const found = kept[slug]; return { at: Number(found?.at) || 0, done: Array.isArray(found?.done) ? found.done : [], over: found?.over === true }; };

  return {
    of,
    at(slug, step) { kept[slug] = { ...of(slug), at: step }; save(); },
    done(slug, step) { const now = of(slug); if (!now.done.includes(step)) { kept[slug] = { ...now, done: [...now.done, step] }; save(); } },
    over(slug) { kept[slug] = { ...of(slug), over: true }; save(); },
    forget() { kept = {}; save(); },
  };
}
