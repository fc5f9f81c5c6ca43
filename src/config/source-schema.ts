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

interface MappedColumns {
  readonly key?: string | readonly string[] | undefined
  readonly outputs: Readonly<Record<string, string | { readonly group?: string | undefined }>>
  readonly touch?: Readonly<Record<string, string>> | undefined
  readonly freshness?: { readonly column: string } | undefined
}

/**
 * Checks the outputs of a source against each other, without the database: a column that is listed twice, is part of
 * another output, belongs to the key, or is also set by `touch`; a group of one.
 */
function checkOutputs(source: MappedColumns, context: z.core.$RefinementCtx): void {
  const reject = (path: readonly string[], found: string, expected: string, todo?: string) =>
    context.addIssue({ code: 'custom', path: [...path], message: expected, params: { found, todo } })
  const columns = Object.keys(source.outputs)
  if (columns.length === 0) reject(['outputs'], 'an empty object', 'at least one column to fill')

  const byPath = new Map<string, string>()
  for (const column of columns) {
    const path = toColumnPath(column)
    const twin = byPath.get(path.join('\0'))
    if (twin !== undefined) {
      reject(['outputs', column], `a column that is already listed, as ${twin}`, 'each column once')
    }
    byPath.set(path.join('\0'), column)
  }
  for (const column of columns) {
    const path = toColumnPath(column)
    const prefixes = path.slice(1).map((_, index) => path.slice(0, index + 1).join('\0'))
    const whole = prefixes.map((prefix) => byPath.get(prefix)).find((output) => output !== undefined)
    if (whole !== undefined) {
      const found = `a key inside ${whole}, which is an output as a whole`
      reject(['outputs', column], found, 'either the column or keys inside it')
    }
  }

  const keys = source.key === undefined ? [] : [source.key].flat().map(unquoteName)
  for (const column of columns) {
    if (keys.includes(toColumnPath(column)[0] ?? '')) {
      reject(['outputs', column], 'a column of the key', 'a column that does not identify the row')
    }
  }
  for (const column of Object.keys(source.touch ?? {})) {
    const name = unquoteName(column)
    if (keys.includes(name))
      reject(['touch', column], 'a column of the key', 'a column that does not identify the row')
    if (columns.some((output) => toColumnPath(output)[0] === name)) {
      reject(
        ['touch', column],
        'a column that is an output too',
        'a column of its own',
        'Remove it from `touch` or from `outputs`.',
      )
    }
  }
  if (source.freshness !== undefined) checkFreshness(source, source.freshness.column, keys, reject)
  for (const [column, output] of Object.entries(source.outputs)) {
    const group = typeof output === 'string' ? undefined : output.group
    const members = Object.values(source.outputs).filter(
      (other) => typeof other !== 'string' && other.group === group,
    )
    if (group !== undefined && members.length === 1) {
      reject(
        ['outputs', column, 'group'],
        `'${group}', which no other output has`,
        'a group of two outputs or more',
      )
    }
  }
}

/** What gives the time of the write, in any of SQL's spellings. */
const CURRENT_TIME =
  /\b(?:now\s*\(|current_timestamp\b|localtimestamp\b|current_date\b|(?:transaction|statement|clock)_timestamp\s*\()/i

/** The stamp is written with each write, so nothing else may write it; `touch` may say how. */
function checkFreshness(
  { outputs, touch = {} }: MappedColumns,
  column: string,
  keys: readonly string[],
  reject: (path: readonly string[], found: string, expected: string, todo?: string) => void,
): void {
  const path = ['freshness', 'column']
  const stamp = toColumnPath(column)
  const overlaps = (other: string): boolean =>
    toColumnPath(other).every((part, depth) => depth >= stamp.length || part === stamp[depth])
  const output = Object.keys(outputs).find(overlaps)
  if (output !== undefined)
    reject(
      path,
      `'${column}', which the output ${output} fills`,
      'a column of its own, which no output fills',
    )
  if (keys.includes(stamp[0] ?? ''))
    reject(path, 'a column of the key', 'a column that does not identify the row')
  const touched = Object.keys(touch).find((other) => toColumnPath(other).join('\0') === stamp.join('\0'))
  if (touched === undefined || CURRENT_TIME.test(touch[touched] ?? '')) return
  reject(
    ['touch', touched],
    `'${touch[touched]}', and \`freshness\` names the same column`,
    'the time of the write, such as now()',
    'Remove it from `touch`: `freshness` sets the column with every write.',
  )
}

/** `attributes."a.b"` → `attributes`, `a.b`. */
function toColumnPath(column: string): string[] {
  return [...column.matchAll(/"(?:[^"]|"")*"|[^."]+/g)].map(([segment]) => unquoteName(segment.trim()))
}

function unquoteName(name: string): string {
  return /^".*"$/s.test(name) ? name.slice(1, -1).replaceAll('""', '"') : name
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
        column: columnNameText.describe(
          'A timestamptz, timestamp or date, or a key inside a jsonb column. A row whose value is younger than refreshAfter counts as enriched, whatever enriched it, and is not picked. Each write sets it to now().',
        ),
      },
      { error: objectLike("{ column: 'enriched_at' }") },
    )
    .optional()
    .describe('The column that keeps when a row was enriched last, by whatever did it.'),
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
