import type { InputName } from '../domain/mapping.ts'
import { renderExpression } from './expression.ts'
import type { Source } from './source-model.ts'

export const MAPPING_INPUTS = [
  'email',
  'linkedin_url',
  'name',
  'company',
  'domain',
] as const satisfies InputName[]

/** SQL for an input as text; NULL if it is not configured. */
export function inputSql(source: Pick<Source, 'mapping'>, name: InputName): string {
  const expression = source.mapping.inputs[name]
  return expression === undefined ? 'null::text' : `(${renderExpression(expression).sql}\n)::text`
}

/** SQL for the hash of a row's raw inputs: any change of an input changes it, even a blank. */
export const inputHashSql = (source: Pick<Source, 'mapping'>): string =>
  `md5(array_to_json(array[${MAPPING_INPUTS.map((name) => inputSql(source, name)).join(', ')}])::text)`

/** SQL for the FROM clause after the table. */
export const joinsSql = (source: Pick<Source, 'mapping'>): string =>
  source.mapping.joins === null ? '' : renderExpression(source.mapping.joins).sql

/** SQL: whether a row belongs to the source. */
export const eligibleSql = (source: Pick<Source, 'mapping'>): string =>
  source.mapping.where === null ? 'true' : `(${renderExpression(source.mapping.where).sql}\n)`
