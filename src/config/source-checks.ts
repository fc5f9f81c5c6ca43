import { z } from 'zod'
import { type Reject, rejecting } from './primitives.ts'
import {
  adviseUnlisted,
  companyInputs,
  type ConfiguredService,
  describeFields,
  isPlain,
  listFields,
  listOutputs,
  outputFor,
  type ParsedSource,
  personInputs,
  type SchemaServices,
  sourceShape,
} from './source-schema.ts'
import { isInputTaken } from '../domain/identifiers/kind.ts'
import type { InputName, NextWhen } from '../domain/mapping.ts'
import { didYouMean, listNames, oneOf, quoteText } from '../util/text.ts'

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

/** What a source says of a service in its list. */
interface Turn {
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

/** The services that serve a source, in their order: those that it lists, or all that can serve it. */
export function listTurns<Configured extends ConfiguredService>(
  source: ParsedSource,
  services: readonly Configured[],
): (Configured & Turn)[] {
  if (source.services === null)
    return services
      .filter((one) => canServe(source, one))
      .map((one) => ({ ...one, when: 'miss', minConfidence: null }))
  return source.services.flatMap((entry) => {
    const { name, when = 'miss', minConfidence = null } = typeof entry === 'string' ? { name: entry } : entry
    return services.filter((one) => one.name === name).map((one) => ({ ...one, when, minConfidence }))
  })
}

/** Checks the services of a source against its kind, inputs and outputs. */
function checkTurns(
  source: ParsedSource,
  services: readonly ConfiguredService[],
  context: z.core.$RefinementCtx,
): void {
  const reject = rejecting(context)
  // Half of a name is named as that.
  if (context.issues.some(({ path }) => path?.[0] === 'inputs')) return
  checkListed(source, services, reject)
  const serving = source.services === null ? services : listTurns(source, services)
  if (serving.length === 0) return
  if (serving.every(({ adapter }) => adapter[source.kind] === null))
    reject(
      ['kind'],
      undefined,
      `a kind that a service of this source has an endpoint for: ${listNames(serving.map(describeService))}`,
      `Describe \`${source.kind}\` in one of them, or remove the source.`,
    )
  else
    for (const input of Object.keys(source.inputs) as InputName[])
      if (input !== 'company' && !serving.some((one) => listTaken(source, one).includes(input)))
        reject(
          ['inputs', input],
          'an input that no service of this source takes',
          `what they take: ${[...new Set(serving.flatMap(({ adapter }) => [...(adapter[source.kind]?.inputs ?? [])]))].join(', ')}`,
          'Remove it here, or add it to `inputs` of the endpoint of one that takes it.',
        )
  const turns = listTurns(source, services)
  const isTaken = services.some((one) => listTaken(source, one).length > 0)
  if (turns.length === 0 && isTaken && context.issues.length === 0)
    reject(
      ['outputs'],
      undefined,
      'a field of a service that takes an input of this source: those that fill a column take none of them',
    )
  checkFields(source, turns, reject)
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
    const configured = services.find((one) => one.name === name)
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
function checkFields(source: ParsedSource, turns: readonly ConfiguredService[], reject: Reject): void {
  for (const [column, output] of Object.entries(source.outputs)) {
    if (!isPlain(output)) continue
    const { field, unlisted = false } = typeof output === 'string' ? { field: output } : output
    const lacking = unlisted
      ? []
      : turns.filter((turn) => {
          const known = listFields(turn, source.kind)
          return known.length > 0 && !known.includes(field)
        })
    const [first] = lacking
    if (first === undefined || first.name === null) continue
    const others = turns.filter((one) => !lacking.includes(one)).map(({ name }) => `${name}: '${field}'`)
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
