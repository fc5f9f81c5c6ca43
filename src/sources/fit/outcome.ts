/** Why a cell is left alone, for reports and for the row's notes. */
export type Misfit =
  | 'absent'
  | 'below_confidence'
  | 'unmapped'
  | 'no_match'
  | 'too_long'
  | 'out_of_range'
  | 'no_such_label'
  | 'group_incomplete'
  | `not_a_${string}`

/** A value ready to be written, as JSON, or the reason why there is none. */
export type Fitting =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly reason: Misfit }

export const fits = (value: unknown): Fitting => ({ ok: true, value })
export const misfit = (reason: Misfit): Fitting => ({ ok: false, reason })
