import { DATABASE, declare, sources } from './declare.ts'

// The commands that hold a source, and let it go on.

export const pauseDeclaration = declare({
  group: 'work',
  summary: 'holds sources: no run picks from them before they are resumed',
  about:
    'Pauses sources, for every process that works on this database and until they are resumed. A run leaves a paused ' +
    'source out, and says so. What was picked before is still asked and written, because it may be paid for already.',
  words: { ...sources, placeholder: 'SOURCE…', help: 'sources of the configuration', least: 1 },
  flags: {},
  examples: [['fillrate pause contacts', 'while somebody imports a list, for instance']],
  environment: DATABASE,
})

export const resumeDeclaration = declare({
  group: 'work',
  summary: 'ends a pause',
  about: 'Lets runs pick from these sources again.',
  words: { ...sources, placeholder: 'SOURCE…', help: 'paused sources', least: 1 },
  flags: {},
  examples: [['fillrate resume contacts', '']],
  environment: DATABASE,
})
