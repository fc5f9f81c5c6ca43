import type { InputName } from '../domain/mapping.ts'
import { render } from './expression.ts'
import type { Source } from './mapped.ts'

export const inputNames = [
  'email',
  'linkedin_url',
  'name',
  'company',
  'domain',
] as const satisfies InputName[]

/** SQL for an input as text, NULL when it is not configured. */
export function inputText(source: Pick<Source, 'mapping'>, name: InputName): string {
  const expression = source.mapping.inputs[name]
  return expression === undefined ? 'null::text' : `(${render(expression).sql}\n)::text`
}

/** SQL for the fingerprint of a row's raw inputs: it changes when any of them does, by as little as a blank. */
export const inputHash = (source: Pick<Source, 'mapping'>): string =>
  `md5(array_to_json(array[${inputNames.map((name) => inputText(source, name)).join(', ')}])::text)`

/** The FROM clause's part after the table. */
export const joins = (source: Pick<Source, 'mapping'>): string =>
  source.mapping.joins === null ? '' : render(source.mapping.joins).sql

/** SQL for which rows belong to the source. */
export const eligible = (source: Pick<Source, 'mapping'>): string =>
  source.mapping.where === null ? 'true' : `(${render(source.mapping.where).sql}\n)`
