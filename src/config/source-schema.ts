import { z } from 'zod'
import { ON_DELETE } from '../domain/deleted-row.ts'
import type { SourceKind } from '../domain/mapping.ts'
import { type ServiceFields, describeFields } from './fields.ts'
import {
  booleanFlag,
  columnNameText,
  fraction,
  lookupShare,
  objectLike,
  oneOfStrings,
  regularExpression,
  requiredString,
  sqlExpression,
} from './primitives.ts'
import { checkOutputs } from './written-columns.ts'

const EXPECTED_MAP = 'an object: values of the field to values of the column'
const mappedValue = z.union([z.string(), z.number(), z.boolean()], {
  error: 'a text, a number, true or false',
})

const outputOptions = {
  policy: oneOfStrings(['blank', 'tracked', 'always'])
    .optional()
    .describe('What happens to a column that already holds a value. Default: blank.'),
  minConfidence: fraction(1)
    .optional()
    .describe("Records below it are not written to this column. Default: the source's."),
  map: z
    .record(z.string(), mappedValue, { error: EXPECTED_MAP })
    .optional()
    .describe('From values of the field to values of the column. Other values are skipped.'),
  sql: sqlExpression('upper($value)')
    .optional()
    .describe('Over $value (text), $json (jsonb) and $confidence.'),
  group: requiredString('the name of a group')
    .optional()
    .describe('Outputs with the same group are written together or not at all.'),
  unique: z
    .array(columnNameText, { error: "a list of columns of the table, such as ['account_id']" })
    .optional()
    .describe(
      'The value is written only if no other row has it that agrees in these columns; with [], no other row of the table. For columns without a unique index.',
    ),
  matches: regularExpression.optional().describe('The value must match it to be written.'),
  tooLong: oneOfStrings(['skip', 'truncate'])
    .optional()
    .describe('What happens to text that is longer than the column. Default: skip.'),
  as: oneOfStrings(['json']).optional().describe('An array or object goes into a text column as JSON.'),
}

const EXPECTED_PATH = "a field's path, such as 'company.size'"
const fieldPath = z
  .string({ error: EXPECTED_PATH })
  .regex(/^[^\s.]+(?:\.[^\s.]+)*$/, { error: EXPECTED_PATH })

/** An output of a source of this kind: a field, alone or with options. */
function outputSchema(kind: SourceKind, fields: readonly string[]) {
  const described = describeFields(kind, fields)
  // A service that describes no fields may send any.
  const field = fields.length === 0 ? fieldPath : z.enum(fields, { error: described })
  const listed = z.strictObject({ field, unlisted: z.literal(false).optional(), ...outputOptions })
  const unlisted = z.strictObject({
    field: fieldPath,
    unlisted: z.literal(true).describe('The field is one that the service does not document.'),
    ...outputOptions,
  })
  const long = z.discriminatedUnion('unlisted', [listed, unlisted], { error: 'true, or nothing' })
  return z.union([field, long], { error: `${described}; or an object with it as its \`field\`` })
}

const IDENTIFIER = String.raw`(?:[\p{L}_][\p{L}\p{N}_$]*|"(?:[^"]|"")+")`
const TABLE_NAME = new RegExp(String.raw`^\s*${IDENTIFIER}(?:\s*\.\s*${IDENTIFIER})?\s*$`, 'u')
const EXPECTED_TABLE = `a table's name, with its schema where it has one: 'crm.contacts', '"Contacts"'`

const keyColumns = z
  .array(columnNameText, { error: 'a list of columns' })
  .min(1, { error: 'at least one column' })

const commonFields = {
  table: z
    .string({ error: EXPECTED_TABLE })
    .regex(TABLE_NAME, { error: EXPECTED_TABLE })
    .describe('Named t in every expression.'),
  joins: sqlExpression('left join crm.accounts a on a.id = t.account_id')
    .optional()
    .describe('Joins for the expressions.'),
  key: z
    .union([columnNameText, keyColumns], { error: "a column's name, or a list of them" })
    .optional()
    .describe('Column or columns that identify a row. Default: the primary key.'),
  where: sqlExpression('t.deleted_at is null').optional().describe('Which rows. Default: all.'),
  changedAt: sqlExpression('t.updated_at')
    .optional()
    .describe(
      'A timestamptz that moves when a row changes, so that a pass reads only changes. For a timestamp without time zone or a date, 12 hours more are read.',
    ),
  freshness: z
    .strictObject(
      {
        column: columnNameText
          .optional()
          .describe(
            'A timestamptz, timestamp or date, or a key inside a jsonb column. A row whose value is younger than refreshAfter counts as enriched, whatever enriched it, and is not picked. Each write sets it to now().',
          ),
        read: sqlExpression('c.enriched_at')
          .optional()
          .describe(
            'In place of column: an expression for such a time that this source does not write, of a joined table for instance. A time that Fillrate itself has set there, by another source, does not count.',
          ),
      },
      { error: objectLike("{ column: 'enriched_at' }") },
    )
    .optional()
    .describe('What keeps when a row was enriched last, by whatever did it: column or read.'),
  follow: booleanFlag
    .optional()
    .describe('`fillrate start` enriches its rows as they change. Default: false.'),
  onDelete: oneOfStrings(ON_DELETE)
    .optional()
    .describe(
      'What happens to what is stored of a row that was deleted from the table: it is erased an hour later, or kept for explain and undo. Default: forget.',
    ),
  budget: lookupShare
    .optional()
    .describe(
      'The most lookups for this source in a run, and in a day of live sync: a number, or a share of that budget. Default: what the other sources leave.',
    ),
  minConfidence: fraction(1).optional().describe('A record below it is not used. Default: 0.'),
  cascade: booleanFlag
    .optional()
    .describe('A row whose lookup finds nothing goes on to its next identifier. Default: false.'),
  touch: z
    .record(columnNameText, sqlExpression('now()'), { error: objectLike("{ enriched_at: 'now()' }") })
    .optional()
    .describe('Columns to set when an output is written, and only then.'),
}

const personInputs = z
  .strictObject(
    {
      email: sqlExpression('t.email').optional(),
      linkedin_url: sqlExpression('t.linkedin')
        .optional()
        .describe('The URL of a personal LinkedIn profile.'),
      name: sqlExpression("concat_ws(' ', t.first_name, t.last_name)")
        .optional()
        .describe('Together with company.'),
      company: sqlExpression('a.name').optional().describe('Together with name.'),
    },
    { error: objectLike("{ email: 't.email' }") },
  )
  .superRefine((inputs, context) => {
    const [missing, given] = inputs.name === undefined ? ['name', 'company'] : ['company', 'name']
    if ((inputs.name === undefined) !== (inputs.company === undefined)) {
      context.addIssue({
        code: 'custom',
        path: [missing],
        message: 'an SQL expression: a lookup needs name and company together',
        params: { todo: `Add \`${missing}\`, or leave out \`${given}\`.` },
      })
    } else if (Object.values(inputs).every((input) => input === undefined)) {
      const message = 'at least one of email, linkedin_url, or name with company'
      context.addIssue({ code: 'custom', message })
    }
  })

const companyInputs = z.strictObject(
  { domain: sqlExpression('t.website').describe('A domain or a URL.') },
  { error: objectLike("{ domain: 't.website' }") },
)

function outputsSchema(kind: SourceKind, fields: readonly string[]) {
  const example = kind === 'person' ? "{ title: 'title' }" : "{ industry: 'industry' }"
  return z
    .record(columnNameText, outputSchema(kind, fields), { error: objectLike(example) })
    .describe('Columns to fill, each with the field of the record that fills it.')
}

/** One source, including the checks between its own fields. Outputs copy these fields of a record. */
export function createSourceSchema(fields: ServiceFields) {
  const personSource = z
    .strictObject({
      kind: z.literal('person'),
      ...commonFields,
      inputs: personInputs,
      outputs: outputsSchema('person', fields.person),
    })
    .superRefine(checkOutputs)
  const companySource = z
    .strictObject({
      kind: z.literal('company'),
      ...commonFields,
      inputs: companyInputs,
      outputs: outputsSchema('company', fields.company),
    })
    .superRefine(checkOutputs)
  return z.discriminatedUnion('kind', [personSource, companySource], {
    error: "an object with `kind`: 'person' or 'company'",
  })
}

export type ParsedSource = z.output<ReturnType<typeof createSourceSchema>>
