import { ONLY_SERVICE, type OutputMapping, type SourceMapping } from '../../../src/domain/mapping.ts'

/** An output with all defaults, as from the configuration. */
export const output = (
  column: string,
  field: string,
  options: Partial<OutputMapping> = {},
): OutputMapping => ({
  column,
  field,
  policy: 'blank',
  minConfidence: null,
  map: null,
  sql: null,
  group: null,
  matches: null,
  ...options,
})

/** A mapping of `people` with all defaults. */
export const mapping = (options: Partial<SourceMapping> = {}): SourceMapping => {
  const one = { ...DEFAULTS, ...options }
  return { ...one, steps: [one] }
}

const DEFAULTS: Omit<SourceMapping, 'steps'> = {
  name: 'people',
  step: ONLY_SERVICE,
  kind: 'person',
  table: 'people',
  joins: null,
  key: null,
  where: [],
  freshness: null,
  follow: false,
  reviewed: true,
  onDelete: 'forget',
  inputs: { email: 't.email' },
  writes: null,
  minConfidence: 0,
  cascade: false,
  outputs: [output('title', 'title')],
  touch: {},
}
