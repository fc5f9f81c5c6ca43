import type { CandidateField } from './fields.ts'
import type { IntrospectedTable } from './introspect.ts'
import type { ProposedOutput } from './proposal.ts'

/**
 * The calling codes of ITU-T E.164.D. No code is the beginning of another, and the pattern keeps to that: Postgres takes
 * the longest alternative, so a bare `\d{3}` would take +155 of a number in the United States.
 */
export const CALLING_CODE_PATTERN =
  String.raw`1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|` +
  String.raw`(?:2[1-689]|3[578]|42|5[09]|6[7-9]|8[0578]|9[679])\d`

/**
 * Splits a phone number into calling code and number if the table has a column for each. Both are written, or
 * neither. Pure.
 */
export function phoneOutputs(
  output: ProposedOutput,
  number: CandidateField,
  { fields }: Pick<IntrospectedTable, 'fields'>,
): ProposedOutput[] {
  const international = number.values.filter((value) => value.startsWith('+')).length
  const code = fields.find((field) => isCallingCodeColumn(field, number))
  if (code === undefined || international * 2 > number.values.length)
    return [isAlwaysE164(number.values) ? { ...output, matches: E164.source } : output]
  const hasPlus =
    code.fit.kind === 'text' &&
    (code.values.length === 0 || code.values.some((value) => value.startsWith('+')))
  const pattern = `'^\\+(?:${CALLING_CODE_PATTERN})'`
  const codeSql = `substring($value from ${pattern})`
  const part = (column: string, type: string, sql: string): ProposedOutput => ({
    column,
    type,
    sql,
    field: 'phone',
    group: 'phone',
  })
  return [
    part(code.name, code.column.type.name, hasPlus ? codeSql : `ltrim(${codeSql}, '+')`),
    part(output.column, output.type, `regexp_replace($value, ${pattern}, '')`),
  ]
}

const E164 = /^\+[1-9]\d{6,14}$/

/** Some programs accept no other form. */
const isAlwaysE164 = (values: readonly string[]): boolean =>
  values.length >= 5 && values.every((value) => E164.test(value.trim()))

/** `phoneCallingCode` beside `phoneNumber`. A country code of letters is not a calling code. */
function isCallingCodeColumn(field: CandidateField, number: CandidateField): boolean {
  const { words, fit, values, path, column } = field
  const isText = fit.kind === 'text' || fit.kind === 'integer'
  if (!words.includes('code') || path.length > 0 || !isText || !column.canUpdate || column.isGenerated)
    return false
  const isCalling = words.includes('calling') || words.includes('dial') || words.includes('dialling')
  const isCountry = words.includes('country') && values.length > 0
  if (!isCalling && !isCountry) return false
  if (!values.every((value) => /^\+?[1-9]\d{0,3}$/.test(value.trim()))) return false
  const shared = words.filter((word) => word !== 'code' && number.words.includes(word))
  return shared.length > 0
}
