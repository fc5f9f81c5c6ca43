import { FAILED_ROW_STATES, type RowState } from '../../domain/row.ts'
import type { Style } from './paint.ts'

/** A state as a person reads it. */
export const stateWords = (state: string): string => state.replaceAll('_', ' ')

export function stateStyle(state: RowState): Style | null {
  if (state === 'enriched') return 'good'
  if (state === 'waiting') return 'warn'
  return (FAILED_ROW_STATES as readonly RowState[]).includes(state) ? 'bad' : null
}
