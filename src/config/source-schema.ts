import { z } from 'zod'
import {
  objectOf,
  rejecting,
  objectLike,
  booleanFlag,
  columnNameText,
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
  type Reject,
} from './primitives.ts'
import { ON_DELETE } from '../domain/deleted-row.ts'
import {
  NAME_DETAILS,
  NEXT_WHEN,
  WRITE_POLICIES,
  type OutputMapping,
  type SourceKind,
  type SourceMapping,
  type InputName,
  type NextWhen,
} from '../domain/mapping.ts'
import type { Service } from '../domain/service/service.ts'
import { LEAST_WRITES_PER_HOUR } from '../domain/write-pace.ts'
import { listNames, oneOf, didYouMean, quoteText, splitName } from '../util/text.ts'
import { isInputTaken } from '../domain/identifiers/kind.ts'

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
  freshness: orNull(objectOf({ column: columnNameText }, "{ column: 'enriched_at' }")),
  follow: booleanFlag.prefault(false),
  onDelete: oneOfStrings(ON_DELETE).prefault('forget'),
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

/** A service of the configuration. */
export interface ConfiguredService {
  /** Null: it is the only one. */
  readonly name: string | null
  /** How it is called. */
  readonly adapter: Service
  /** Whether its module exports cases; absent: it has no module. */
  readonly hasCases?: boolean | undefined
}

/** The fields that outputs of a service may copy. None: it describes none, and any may be copied. */
const listFields = ({ adapter }: ConfiguredService, kind: SourceKind): string[] =>
  Object.keys(adapter.fields[kind])

export const adviseUnlisted = (field: string): string =>
  `If the service sends a field that is not listed, write { field: '${field}', unlisted: true }.`

/** What a field of this kind may be, for a message. */
const describeFields = (kind: SourceKind, fields: readonly string[]): string =>
  `a field of a ${kind} record: ${oneOf(fields)}`

/** What a configuration may name: its services, or any where the configuration is not known yet. */
export interface SchemaServices {
  readonly services: readonly ConfiguredService[]
  readonly isOpen: boolean
}

const namesOf = ({ services }: SchemaServices): string[] => services.flatMap(({ name }) => name ?? [])

/** An output of all services, or by service. */
function outputSchema(kind: SourceKind, known: SchemaServices) {
  const lists = known.services.map((service) => listFields(service, kind))
  const all = lists.some((list) => list.length === 0) ? [] : [...new Set(lists.flat())]
  const named = known.services.flatMap((service) => {
    const shape = plainOutputSchema(kind, listFields(service, kind)).optional()
    return service.name === null ? [] : [[service.name, shape] as const]
  })
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

/** Services' names are part of variables, addresses and labels of metrics. `field` would be read as an output. */
const EXPECTED_SERVICE_NAME =
  "a service's name: letters, digits, _ and -, at most 63, the first one a letter, other than 'field'"
export const serviceNameText = textLike(/^(?!field$)[A-Za-z][A-Za-z0-9_-]{0,62}$/, EXPECTED_SERVICE_NAME)

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
  const entry = z.union([name, long], { error: `${oneOf(names)}; or an object with it as its \`name\`` })
  return orNull(listOf(entry, EXPECTED_SERVICES, 'at least one service; leave `services` out for all'))
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
    outputs: z.record(columnNameText, outputSchema(kind, known), {
      error: objectLike(kind === 'person' ? "{ title: 'title' }" : "{ industry: 'industry' }"),
    }),
  })

/** A source whose fields are right, each for itself. */
export type ParsedSource = z.output<ReturnType<typeof sourceShape<SourceKind, typeof personInputs>>>

/** What fills a column: a field, of all services; or one of each, by their names. */
type AnyOutput = ParsedSource['outputs'][string]
/** A field of the record, alone or with options. */
export type PlainOutput = string | Extract<AnyOutput, { field: string }>

const isPlain = (output: AnyOutput): output is PlainOutput =>
  typeof output === 'string' || typeof output['field'] === 'string'

/** What a service fills a column with; null: nothing. */
export const outputFor = (output: AnyOutput, name: string): PlainOutput | null =>
  isPlain(output) ? output : (output[name] ?? null)

/** An output, or those by service, each with its path below the column. */
const listOutputs = (output: AnyOutput): (readonly [path: readonly string[], output: PlainOutput])[] =>
  isPlain(output)
    ? [[[], output]]
    : Object.entries(output).flatMap(([name, value]) =>
        value === undefined ? [] : [[[name], value] as const],
      )

/** An output with its options, in either form. */
export function toOutputMapping(column: string, output: PlainOutput): OutputMapping {
  if (typeof output === 'string') return { column, field: output, ...DEFAULT_OPTIONS }
  const { unlisted: _, ...options } = output
  return { column, ...options }
}

/** One source, including the checks between its own fields. Outputs copy fields of the records of its services. */
export function createSourceSchema(known: SchemaServices) {
  const check = (source: ParsedSource, context: z.core.$RefinementCtx): void => {
    checkOutputs(source, context)
    checkServing(source, known.services, context)
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
 * Checks what a source writes, without the database: a cell that is written twice or inside another, or
 * belongs to the key; a group of one.
 */
function checkOutputs(source: ParsedSource, context: z.core.$RefinementCtx): void {
  const reject = rejecting(context)
  const columns = Object.keys(source.outputs)
  if (columns.length === 0) reject(['outputs'], 'an empty object', 'at least one column to fill')
  const stamp = source.freshness?.column
  const touched = Object.keys(source.touch)
  const toCell = (place: readonly string[], column: string) => ({ place, column, path: splitName(column) })
  const cells = [
    ...columns.map((column) => toCell(['outputs', column], column)),
    ...touched.map((column) => toCell(['touch', column], column)),
    // `touch` may say what the stamp is.
    ...(stamp === undefined || touched.includes(stamp) ? [] : [toCell(['freshness', 'column'], stamp)]),
  ]
  const keys = new Set((source.key ?? []).map((name) => splitName(name)[0]))
  for (const [at, { place, path }] of cells.entries()) {
    const twin = cells
      .slice(0, at)
      .find((other) => path.every((part, depth) => depth >= other.path.length || part === other.path[depth]))
    if (twin !== undefined)
      reject(place, `a cell of ${twin.column}, which is written, too`, 'each column, or each key in it, once')
    if (keys.has(path[0])) reject(place, 'a column of the key', 'a column that does not identify the row')
  }
  const groups = Object.entries(source.outputs).flatMap(([column, output]) =>
    listOutputs(output).flatMap(([path, output]) =>
      typeof output === 'string' || typeof output.group !== 'string'
        ? []
        : [{ column, path, group: output.group }],
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

/** What a source says of a service in its list. */
interface ListedService {
  readonly when: NextWhen
  /** Null: that of the source. */
  readonly minConfidence: number | null
}

/** The inputs of a source that a service takes. */
export const listTaken = ({ kind, inputs }: ParsedSource, { adapter }: ConfiguredService): InputName[] =>
  (Object.keys(inputs) as InputName[]).filter((input) =>
    isInputTaken(adapter[kind]?.inputs ?? new Set(), input, inputs),
  )

const fillsNothing = ({ outputs }: ParsedSource, { name }: ConfiguredService): boolean =>
  Object.values(outputs).every((output) => outputFor(output, name ?? '') === null)

const canServe = (source: ParsedSource, configured: ConfiguredService): boolean =>
  listTaken(source, configured).length > 0 && !fillsNothing(source, configured)

/** The services that serve a source, in their order: the listed ones, or all that can serve it. */
export function listServing<Configured extends ConfiguredService>(
  source: ParsedSource,
  services: readonly Configured[],
): (Configured & ListedService)[] {
  if (source.services === null)
    return services
      .filter((service) => canServe(source, service))
      .map((service) => ({ ...service, when: 'miss', minConfidence: null }))
  return source.services.flatMap((entry) => {
    const { name, when = 'miss', minConfidence = null } = typeof entry === 'string' ? { name: entry } : entry
    return services.flatMap((service) => (service.name === name ? [{ ...service, when, minConfidence }] : []))
  })
}

/** Checks the services of a source against its kind, inputs and outputs. */
function checkServing(
  source: ParsedSource,
  services: readonly ConfiguredService[],
  context: z.core.$RefinementCtx,
): void {
  const reject = rejecting(context)
  // Half of a name is named as that.
  if (context.issues.some(({ path }) => path?.[0] === 'inputs')) return
  checkListed(source, services, reject)
  const known = source.services === null ? services : listServing(source, services)
  if (known.length === 0) return
  if (known.every(({ adapter }) => adapter[source.kind] === null))
    reject(
      ['kind'],
      undefined,
      `a kind that a service of this source has an endpoint for: ${listNames(known.map(describeService))}`,
      `Describe \`${source.kind}\` in one of them, or remove the source.`,
    )
  else
    for (const input of Object.keys(source.inputs) as InputName[])
      if (input !== 'company' && !known.some((service) => listTaken(source, service).includes(input)))
        reject(
          ['inputs', input],
          'an input that no service of this source takes',
          `what they take: ${[...new Set(known.flatMap(({ adapter }) => [...(adapter[source.kind]?.inputs ?? [])]))].join(', ')}`,
          'Remove it here, or add it to `inputs` of the endpoint of one that takes it.',
        )
  const serving = listServing(source, services)
  const isTaken = services.some((service) => listTaken(source, service).length > 0)
  if (serving.length === 0 && isTaken && context.issues.length === 0)
    reject(
      ['outputs'],
      undefined,
      'a field of a service that takes an input of this source: those that fill a column take none of them',
    )
  checkFields(source, serving, reject)
}

const describeService = ({ name, adapter }: ConfiguredService): string =>
  name === null ? adapter.name : `${name} (${adapter.name})`

function checkListed(source: ParsedSource, services: readonly ConfiguredService[], reject: Reject): void {
  const names = (source.services ?? []).map((entry) => (typeof entry === 'string' ? entry : entry.name))
  for (const [index, name] of names.entries()) {
    const entry = source.services?.[index]
    const place = ['services', index, ...(typeof entry === 'object' ? ['name'] : [])]
    const found = quoteText(name)
    if (names.indexOf(name) < index)
      reject(place, `${found}, which is in the list already`, 'each service once')
    if (index === 0 && typeof entry === 'object' && entry.when !== undefined)
      reject(
        ['services', 0, 'when'],
        undefined,
        'nothing: the first service looks up each row',
        'Remove it, or write it at a later one: `when` decides which rows go on to that service.',
      )
    const configured = services.find((service) => service.name === name)
    if (configured === undefined) continue
    const why = explainUnserved(source, configured)
    if (why !== null)
      reject(
        place,
        `${found}, which ${why}`,
        `a service that looks up a ${source.kind} by ${oneOf(Object.keys(source.inputs))} and fills a column`,
      )
  }
}

function explainUnserved(source: ParsedSource, configured: ConfiguredService): string | null {
  const call = configured.adapter[source.kind]
  if (call === null) return `has no endpoint for a ${source.kind}`
  if (listTaken(source, configured).length === 0)
    return `takes ${listNames([...call.inputs])}, none of which this source has`
  return fillsNothing(source, configured) ? 'no output names' : null
}

/** An output for all services names a field that each of them has. */
function checkFields(source: ParsedSource, serving: readonly ConfiguredService[], reject: Reject): void {
  for (const [column, output] of Object.entries(source.outputs)) {
    if (!isPlain(output)) continue
    const { field, unlisted = false } = typeof output === 'string' ? { field: output } : output
    const lacking = unlisted
      ? []
      : serving.filter((service) => {
          const known = listFields(service, source.kind)
          return known.length > 0 && !known.includes(field)
        })
    const [first] = lacking
    if (first === undefined || first.name === null) continue
    const others = serving
      .filter((service) => !lacking.includes(service))
      .map(({ name }) => `${name}: '${field}'`)
    const known = listFields(first, source.kind)
    const advice = didYouMean(field, known) ?? adviseUnlisted(field)
    reject(
      ['outputs', column, ...(typeof output === 'string' ? [] : ['field'])],
      `${quoteText(field)}, which ${listNames(lacking.map(describeService))} ${lacking.length === 1 ? 'lacks' : 'lack'}`,
      `of ${first.name}, ${describeFields(source.kind, known)}`,
      others.length === 0
        ? advice
        : `Name the field of each service: { ${others.join(', ')}, ${first.name}: '…' }; one that is left out does not fill the column. ${advice}`,
    )
  }
}
