// Labels the run on the stage: where it comes from, what ran, and at its end how it ended.
import { makeFind, setText } from '../lib/dom.js';
import { comparedSentence, endSentence } from './sentences.js';

const SOURCES = { file: 'From a file', recorded: 'Recorded run', yours: 'Your run', running: 'Running now' };

export function makeLabels(root, timeline, playhead) {
  const find = makeFind(root);

  function kindOf({ about, ended, rounds }) {
    if (about.origin) return 'file';
    if (about.recorded) return 'recorded';
    return ended ? 'yours' : rounds.length || about.prompt ? 'running' : '';
  }

  function show() {
    const { about } = timeline,
      source = find('.sl-source');
    root.dataset.kind = source.dataset.kind = kindOf(timeline);
    // A server's recording has a heading of its own.
    setText(source, about.source || SOURCES[source.dataset.kind] || '');
    root.dataset.server = about.server ? (about.counted ? 'counted' : 'uncounted') : '';
    setText(find('.sl-about'), about.words || '');
    find('.sl-about').title = [about.words, about.why].filter(Boolean).join('. ');
    for (const badge of root.querySelectorAll('.sl-lossy')) {
      badge.hidden = !about.lossy;
      badge.title = about.lossy || '';
    }
    root.toggleAttribute('data-lossy', Boolean(about.lossy));
    setText(find('.sl-origin'), about.origin ? `Recorded: ${about.origin}` : '');
    setText(find('.sl-asked'), about.prompt || '');
    root.toggleAttribute('data-constraint', Boolean(about.constraint));
    root.dataset.rule = about.block ? 'block' : '';
    showEnd();
  }

  function showEnd() {
    const { ended, compared } = timeline,
      words = [compared && comparedSentence(compared), ended && endSentence(ended, timeline.prefix > 0)];
    const text = ended && playhead.isAtEnd() ? words.filter(Boolean).join(' ') : '';
    setText(find('.sl-compared'), text);
  }

  return { show, showEnd };
}
