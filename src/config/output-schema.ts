import { z } from 'zod'
import type { SourceKind } from '../domain/mapping.ts'
import { expectedField, recordFields } from './fields.ts'
import { choice, pattern, share, sql, text } from './leaves.ts'

const expectedMap = 'an object: values of the field to values of the column'
const mapped = z.union([z.string(), z.number(), z.boolean()], { error: 'a text, a number, true or false' })

const options = {
  policy: choice(['blank', 'tracked', 'always'])
    .optional()
    .describe('What may happen to a column that already holds a value. Default: blank.'),
  minConfidence: share(1)
    .optional()
    .describe("A record below it leaves this column alone. Default: the source's."),
  map: z
    .record(z.string(), mapped, { error: expectedMap })
    .optional()
    .describe('Values of the field to values of the column. A value that is not in it is skipped.'),
  sql: sql('upper($value)').optional().describe('Over $value (text), $json (jsonb) and $confidence.'),
  group: text('the name of a group')
    .optional()
    .describe('Outputs of one group are written whole or not at all.'),
  matches: pattern.optional().describe('The value must match it to be written.'),
  tooLong: choice(['skip', 'truncate'])
    .optional()
    .describe('What happens to a text that is longer than the column. Default: skip.'),
  as: choice(['json']).optional().describe('An array or object goes into a text column as JSON.'),
}

const expectedPath = "a field's path, such as 'company.size'"
const fieldPath = z.string({ error: expectedPath }).regex(/^[^\s.]+(?:\.[^\s.]+)*$/, { error: expectedPath })

/** What fills one column of a source of this kind: a field, alone or with options. */
export function outputSchema(kind: SourceKind) {
  const field = z.enum(recordFields[kind] as readonly string[], { error: expectedField(kind) })
  const listed = z.strictObject({ field, unlisted: z.literal(false).optional(), ...options })
  const unlisted = z.strictObject({
    field: fieldPath,
    unlisted: z.literal(true).describe("The field is not among those that the service's interface lists."),
    ...options,
  })
  const long = z.discriminatedUnion('unlisted', [listed, unlisted], { error: 'true, or nothing' })
  return z.union([field, long], { error: `${expectedField(kind)}; or an object with it as its \`field\`` })
}
