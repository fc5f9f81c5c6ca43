import { z } from 'zod'
import { ON_DELETE } from '../domain/deleted-row.ts'
import {
  type OutputMapping,
  type SourceKind,
  type SourceMapping,
  TOO_LONG,
  WRITE_POLICIES,
} from '../domain/mapping.ts'
import { type ServiceFields, describeFields } from './fields.ts'
import {
  booleanFlag,
  columnNameText,
  fraction,
  lookupShare,
  objectLike,
  oneOfStrings,
  orNull,
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
  policy: oneOfStrings(WRITE_POLICIES).prefault('blank'),
  minConfidence: orNull(fraction(1)),
  map: orNull(z.record(z.string(), mappedValue, { error: EXPECTED_MAP })),
  sql: orNull(sqlExpression('upper($value)')),
  group: orNull(requiredString('the name of a group')),
  unique: orNull(
    z.array(columnNameText, { error: "a list of columns of the table, such as ['account_id']" }),
  ),
  matches: orNull(regularExpression),
  tooLong: oneOfStrings(TOO_LONG).prefault('skip'),
  as: orNull(oneOfStrings(['json'])),
}

/** An output that is a field alone. */
const DEFAULT_OPTIONS = z.strictObject(outputOptions).parse({})

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
    unlisted: z.literal(true),
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
  table: z.string({ error: EXPECTED_TABLE }).regex(TABLE_NAME, { error: EXPECTED_TABLE }).trim(),
  joins: orNull(sqlExpression('left join crm.accounts a on a.id = t.account_id')),
  key: orNull(
    z.union([columnNameText, keyColumns], { error: "a column's name, or a list of them" }),
  ).transform((key) => (key === null ? null : [key].flat())),
  where: orNull(sqlExpression('t.deleted_at is null')),
  changedAt: orNull(sqlExpression('t.updated_at')),
  freshness: orNull(
    z.strictObject(
      { column: columnNameText.optional(), read: sqlExpression('c.enriched_at').optional() },
      { error: objectLike("{ column: 'enriched_at' }") },
    ),
  ),
  follow: booleanFlag.prefault(false),
  onDelete: oneOfStrings(ON_DELETE).prefault('forget'),
  budget: orNull(lookupShare),
  minConfidence: fraction(1).prefault(0),
  cascade: booleanFlag.prefault(false),
  touch: z
    .record(columnNameText, sqlExpression('now()'), { error: objectLike("{ enriched_at: 'now()' }") })
    .prefault({}),
}

const personInputs = z
  .strictObject(
    {
      email: sqlExpression('t.email').optional(),
      linkedin_url: sqlExpression('t.linkedin').optional(),
      name: sqlExpression("concat_ws(' ', t.first_name, t.last_name)").optional(),
      company: sqlExpression('a.name').optional(),
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
  // A key may be there and undefined.
  .transform((inputs): SourceMapping['inputs'] =>
    Object.fromEntries(Object.entries(inputs).filter(([, expression]) => expression !== undefined)),
  )

const companyInputs = z.strictObject(
  { domain: sqlExpression('t.website') },
  { error: objectLike("{ domain: 't.website' }") },
)

function outputsSchema(kind: SourceKind, fields: readonly string[]) {
  const example = kind === 'person' ? "{ title: 'title' }" : "{ industry: 'industry' }"
  return z.record(columnNameText, outputSchema(kind, fields), { error: objectLike(example) })
}

/** An output with its options, in either form. */
export function toOutputMapping(
  column: string,
  output: z.output<ReturnType<typeof outputSchema>>,
): OutputMapping {
  if (typeof output === 'string') return { column, field: output, ...DEFAULT_OPTIONS }
  const { unlisted: _, ...options } = output
  return { column, ...options }
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
