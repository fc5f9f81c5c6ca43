import type { Field } from './field.ts'
import type { ProposedOutput } from './proposal.ts'
import type { Surveyed } from './survey.ts'

/** Country calling codes are one to three digits, and none is the beginning of another (ITU-T E.164.D). */
const CODE = String.raw`1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|\d{3}`

/**
 * A telephone number that has a column of its own for the country's calling code is filled in two, whole or not at all.
 * Pure.
 */
export function phoneParts(
  output: ProposedOutput,
  number: Field,
  { fields }: Pick<Surveyed, 'fields'>,
): ProposedOutput[] {
  const code = fields.find((field) => isCodeOf(field, number))
  if (
    code === undefined ||
    number.values.filter((value) => value.startsWith('+')).length * 2 > number.values.length
  )
    return [output]
  const plus = code.values.length === 0 || code.values.some((value) => value.startsWith('+'))
  const [before, after] = plus ? [String.raw`^\+(?:`, ')'] : [String.raw`^\+(`, ')']
  const pattern = `'${before}${CODE}${after}'`
  const part = (column: string, type: string, sql: string): ProposedOutput => ({
    column,
    type,
    sql,
    field: 'phone',
    group: 'phone',
  })
  return [
    part(code.name, code.column.type.name, `substring($value from ${pattern})`),
    part(output.column, output.type, `regexp_replace($value, ${pattern}, '')`),
  ]
}

/** `phoneCallingCode` beside `phoneNumber`; a country's code of letters is another thing. */
function isCodeOf(field: Field, number: Field): boolean {
  const { words, fit, values, path, column } = field
  if (
    !words.includes('code') ||
    path.length > 0 ||
    fit.kind !== 'text' ||
    !column.canUpdate ||
    column.isGenerated
  )
    return false
  const isCalling = words.includes('calling') || words.includes('dial') || words.includes('dialling')
  const isCountry = words.includes('country') && values.length > 0
  if (!isCalling && !isCountry) return false
  if (!values.every((value) => /^\+?\d{1,4}$/.test(value.trim()))) return false
  const shared = words.filter((word) => word !== 'code' && number.words.includes(word))
  return shared.length > 0
}
