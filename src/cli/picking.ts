import { budget, oneOf, text, wholeNumber } from './options.ts'

/** The options of `plan` and `run` that say what is picked. */
export const limit = wholeNumber(
  '--limit <N>',
  'rows of each source, at the most; what an interrupted run left counts',
  1,
  null,
)
export const lookupBudget = budget(
  '--budget <N|unlimited>',
  "lookups that may be asked; default: the configuration's budget",
)
export const where = text(
  '--where <SQL>',
  'only rows for which this is true; the table is t, as in the configuration',
)
export const route = oneOf(
  '--route <auto|sync|bulk>',
  'one call a lookup, or jobs of 100; default: auto',
  ['auto', 'sync', 'bulk'],
  'auto',
)
