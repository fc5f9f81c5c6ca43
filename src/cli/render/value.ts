import { clean } from './text.ts'

const NONE = '—'

/**
 * A value of a column or of a record, on one line: a text as it is, in quotes where it could not be told from nothing;
 * all else as JSON.
 */
export function valueText(value: unknown): string {
  if (value === null || value === undefined) return NONE
  const isPlain = typeof value === 'string' && value !== '' && value === value.trim() && value !== NONE
  return clean(isPlain ? value : JSON.stringify(value))
}
