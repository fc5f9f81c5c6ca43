import { z } from 'zod'
import {
  objectOf,
  rejecting,
  objectLike,
  booleanFlag,
  columnNameText,
  countFromZero,
  FIELD_PATH,
  fraction,
  integerBetween,
  listOf,
  oneOfStrings,
  orNull,
  regularExpression,
  requiredString,
  sqlConditions,
  sqlExpression,
  textLike,
} from './primitives.ts'
import { ON_DELETE } from '../domain/deleted-row.ts'
import {
  NAME_DETAILS,
  NEXT_WHEN,
  type OutputMapping,
  type SourceKind,
  type SourceMapping,
  WRITE_POLICIES,
} from '../domain/mapping.ts'
import { LEAST_WRITES_PER_HOUR } from '../domain/write-pace.ts'
import {
  describeFields,
  checkTurns,
  type ConfiguredService,
  listFields,
  listOutputs,
  type PlainOutput,
} from './turns.ts'
import { serviceNameText } from './service-settings-schema.ts'
import { listNames, oneOf } from '../util/text.ts'

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
  matches: orNull(regularExpression),
}

/** An output that is a field alone. */
const DEFAULT_OPTIONS = objectOf(outputOptions).parse({})

const EXPECTED_PATH = "a field's path, such as 'company.size'"
const fieldPath = textLike(FIELD_PATH, EXPECTED_PATH)

/** An output of a source of this kind: a field, alone or with options. */
function outputForms(kind: SourceKind, fields: readonly string[]) {
  // A service that describes no fields may send any.
  const field = fields.length === 0 ? fieldPath : z.enum(fields, { error: describeFields(kind, fields) })
  const listed = objectOf({ field, unlisted: z.literal(false).optional(), ...outputOptions })
  const unlisted = listed.extend({ field: fieldPath, unlisted: z.literal(true) })
  const long = z.discriminatedUnion('unlisted', [listed, unlisted], { error: 'true, or nothing' })
  return [field, long] as const
}

const describeOutput = (kind: SourceKind, fields: readonly string[]): string =>
  `${describeFields(kind, fields)}; or an object with it as its \`field\``

const plainOutputSchema = (kind: SourceKind, fields: readonly string[]) =>
  z.union(outputForms(kind, fields), { error: describeOutput(kind, fields) })

const IDENTIFIER = String.raw`(?:[\p{L}_][\p{L}\p{N}_$]*|"(?:[^"]|"")+")`
const TABLE_NAME = new RegExp(String.raw`^\s*${IDENTIFIER}(?:\s*\.\s*${IDENTIFIER})?\s*$`, 'u')
const EXPECTED_TABLE = `a table's name, with its schema where it has one: 'crm.contacts', '"Contacts"'`

const keyColumns = listOf(columnNameText, 'a list of columns', 'at least one column')

const commonFields = {
  table: textLike(TABLE_NAME, EXPECTED_TABLE).trim(),
  joins: orNull(sqlExpression('left join crm.accounts a on a.id = t.account_id')),
  key: orNull(
    z.union([columnNameText, keyColumns], { error: "a column's name, or a list of them" }),
  ).transform((key) => (key === null ? null : [key].flat())),
  where: sqlConditions('t.deleted_at is null'),
  changedAt: orNull(sqlExpression('t.updated_at')),
  freshness: orNull(objectOf({ column: columnNameText }, "{ column: 'enriched_at' }")),
  follow: booleanFlag.prefault(false),
  onDelete: oneOfStrings(ON_DELETE).prefault('forget'),
  budget: orNull(countFromZero('a whole number of lookups, such as 2000')),
  writes: orNull(
    objectOf({ perHour: integerBetween(LEAST_WRITES_PER_HOUR, 1_000_000_000) }, '{ perHour: 5000 }'),
  ),
  minConfidence: fraction(1).prefault(0),
  cascade: booleanFlag.prefault(false),
  reviewed: booleanFlag.prefault(true),
  touch: z
    .record(columnNameText, sqlExpression('now()'), { error: objectLike("{ enriched_at: 'now()' }") })
    .prefault({}),
}

const NAME_INPUTS = ['name', 'company', ...NAME_DETAILS] as const

const personInputs = objectOf(
  {
    email: sqlExpression('t.email').optional(),
    linkedin_url: sqlExpression('t.linkedin').optional(),
    name: sqlExpression("concat_ws(' ', t.first_name, t.last_name)").optional(),
    company: sqlExpression('a.name').optional(),
    first_name: sqlExpression('t.first_name').optional(),
    last_name: sqlExpression('t.last_name').optional(),
    company_domain: sqlExpression('a.website').optional(),
  },
  "{ email: 't.email' }",
)
  .superRefine((inputs, context) => {
    const reject = rejecting(context)
    const given = NAME_INPUTS.filter((name) => inputs[name] !== undefined)
    const hasName = given.includes('name') || (given.includes('first_name') && given.includes('last_name'))
    const hasCompany = given.includes('company') || given.includes('company_domain')
    if (given.length > 0 && !(hasName && hasCompany)) {
      const missing = hasName ? 'company' : 'name'
      const todo = `Add \`${missing}\`, or leave out ${listNames(given.map((name) => `\`${name}\``))}.`
      reject([missing], undefined, 'an SQL expression: a lookup needs name and company together', todo)
    } else if (Object.values(inputs).every((input) => input === undefined))
      reject([], undefined, 'at least one of email, linkedin_url, or name with company')
  })
  // A key may be there and undefined.
  .transform((inputs): SourceMapping['inputs'] =>
    Object.fromEntries(Object.entries(inputs).filter(([, expression]) => expression !== undefined)),
  )

const companyInputs = objectOf({ domain: sqlExpression('t.website') }, "{ domain: 't.website' }")

/** What a configuration may name: its services, or any where the configuration is not known yet. */
export interface SchemaServices {
  readonly services: readonly ConfiguredService[]
  readonly isOpen: boolean
}

const namesOf = ({ services }: SchemaServices): string[] => services.flatMap(({ name }) => name ?? [])

/** An output of all services, or by service. */
function outputSchema(kind: SourceKind, known: SchemaServices) {
  const lists = known.services.map((one) => listFields(one, kind))
  const all = lists.some((list) => list.length === 0) ? [] : [...new Set(lists.flat())]
  const named = known.services.flatMap((one) =>
    one.name === null ? [] : [[one.name, plainOutputSchema(kind, listFields(one, kind)).optional()] as const],
  )
  const example = `an object by service, such as { ${namesOf(known)[0] ?? 'acme'}: 'phone' }`
  const byService = known.isOpen
    ? z.record(serviceNameText, plainOutputSchema(kind, []).optional())
    : objectOf(Object.fromEntries(named)).refine((outputs) => Object.keys(outputs).length > 0, {
        error: example,
      })
  return z.union([...outputForms(kind, all), ...(known.isOpen || named.length > 0 ? [byService] : [])], {
    error: describeOutput(kind, all),
  })
}

const EXPECTED_SERVICES = "a list of services, such as ['acme', { name: 'pdl', when: 'blank' }]"

/** The services that serve a source, in their order. */
function servingServices(known: SchemaServices) {
  const names = namesOf(known)
  const name: z.ZodType<string, string> = known.isOpen
    ? serviceNameText
    : z.enum(names, {
        error: names.length === 0 ? 'nothing here: the configuration has one service' : oneOf(names),
      })
  const long = objectOf({
    name,
    when: oneOfStrings(NEXT_WHEN).optional(),
    minConfidence: orNull(fraction(1)),
  })
  const one = z.union([name, long], { error: `${oneOf(names)}; or an object with it as its \`name\`` })
  return orNull(listOf(one, EXPECTED_SERVICES, 'at least one service; leave `services` out for all'))
}

function outputsSchema(kind: SourceKind, known: SchemaServices) {
  const example = kind === 'person' ? "{ title: 'title' }" : "{ industry: 'industry' }"
  return z.record(columnNameText, outputSchema(kind, known), { error: objectLike(example) })
}

/** An output with its options, in either form. */
export function toOutputMapping(column: string, output: PlainOutput): OutputMapping {
  if (typeof output === 'string') return { column, field: output, ...DEFAULT_OPTIONS }
  const { unlisted: _, ...options } = output
  return { column, ...options }
}

/** A source of one kind, each field for itself. */
const sourceShape = <
  const Kind extends SourceKind,
  Inputs extends z.ZodType<SourceMapping['inputs'], object>,
>(
  kind: Kind,
  inputs: Inputs,
  known: SchemaServices,
) =>
  objectOf({
    kind: z.literal(kind),
    ...commonFields,
    services: servingServices(known),
    inputs,
    outputs: outputsSchema(kind, known),
  })

/** A source whose fields are right, each for itself. */
export type ParsedSource = z.output<ReturnType<typeof sourceShape<SourceKind, typeof personInputs>>>

/** One source, including the checks between its own fields. Outputs copy fields of the records of its services. */
export function createSourceSchema(known: SchemaServices) {
  const check = (source: ParsedSource, context: z.core.$RefinementCtx): void => {
    checkOutputs(source, context)
    checkTurns(source, known.services, context)
  }
  return z.discriminatedUnion(
    'kind',
    [
      sourceShape('person', personInputs, known).superRefine(check),
      sourceShape('company', companyInputs, known).superRefine(check),
    ],
    { error: "an object with `kind`: 'person' or 'company'" },
  )
}

/**
 * Checks what a source writes, without the database: a cell that is written twice or inside another, or belongs to the key; a
 * group of one.
 */
function checkOutputs(source: ParsedSource, context: z.core.$RefinementCtx): void {
  const reject = rejecting(context)
  const columns = Object.keys(source.outputs)
  if (columns.length === 0) reject(['outputs'], 'an empty object', 'at least one column to fill')
  const stamp = source.freshness?.column
  const touched = Object.keys(source.touch)
  const toCell = (place: readonly string[], column: string) => ({ place, column, path: toColumnPath(column) })
  const cells = [
    ...columns.map((column) => toCell(['outputs', column], column)),
    ...touched.map((column) => toCell(['touch', column], column)),
    // `touch` may say what the stamp is.
    ...(stamp === undefined || touched.includes(stamp) ? [] : [toCell(['freshness', 'column'], stamp)]),
  ]
  const keys = new Set((source.key ?? []).map(unquoteName))
  for (const [at, { place, path }] of cells.entries()) {
    const twin = cells
      .slice(0, at)
      .find((other) => path.every((part, depth) => depth >= other.path.length || part === other.path[depth]))
    if (twin !== undefined)
      reject(place, `a cell of ${twin.column}, which is written, too`, 'each column, or each key in it, once')
    if (keys.has(path[0] ?? ''))
      reject(place, 'a column of the key', 'a column that does not identify the row')
  }
  const groups = Object.entries(source.outputs).flatMap(([column, output]) =>
    listOutputs(output).flatMap(([path, one]) =>
      typeof one === 'string' || typeof one.group !== 'string' ? [] : [{ column, path, group: one.group }],
    ),
  )
  for (const { column, path, group } of groups)
    if (groups.every((other) => other.group !== group || other.column === column))
      reject(
        ['outputs', column, ...path, 'group'],
        `'${group}', which no other output has`,
        'a group of two outputs or more',
      )
}

/** `attributes."a.b"` → `attributes`, `a.b`. */
function toColumnPath(column: string): string[] {
  return [...column.matchAll(/"(?:[^"]|"")*"|[^."]+/g)].map(([segment]) => unquoteName(segment.trim()))
}

function unquoteName(name: string): string {
  return /^".*"$/s.test(name) ? name.slice(1, -1).replaceAll('""', '"') : name
}
