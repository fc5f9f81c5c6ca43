import type { RawInputs } from '../../domain/identifiers/choose.ts'
import type { InputName } from '../../domain/mapping.ts'
import type { Field } from './field.ts'
import type { MeasuredRow } from './measure.ts'

/** From this share of the sampled rows on, a column that can be filled is worth more as an input. */
export const WORTH = 0.05

/** The inputs that a draft comes to. */
export interface Chosen {
  readonly inputs: Partial<Record<InputName, string>>
  /** Fields that inputs are read from. */
  readonly fields: ReadonlySet<Field>
  readonly joins: string | null
  /** What the chosen inputs give for a measured row. */
  readonly read: (row: MeasuredRow) => RawInputs
}

export const NOTHING: RawInputs = { email: null, linkedin_url: null, name: null, company: null, domain: null }

export const isNothing = (value: string | null): boolean => value === null || value.trim() === ''
