import type { z } from 'zod'
import { isInputTaken } from '../domain/identifiers/kind.ts'
import {
  type InputName,
  type NextWhen,
  ONLY_SERVICE,
  type ServiceTurn,
  type SourceKind,
} from '../domain/mapping.ts'
import type { Service } from '../domain/service/service.ts'
import { listNames, oneOf, quoteText, didYouMean } from '../util/text.ts'
import { type Reject, rejecting } from './primitives.ts'

/** A service of the configuration. */
export interface ConfiguredService {
  /** Null: it is the only one. */
  readonly name: string | null
  readonly service: Service
  /** Whether its module exports cases; absent: it has no module. */
  readonly hasCases?: boolean | undefined
}

type PlainOutput = string | { readonly field: string; readonly unlisted?: boolean | undefined }
type ByService<Output> = Readonly<Record<string, Output | undefined>>
/** What fills a column: a field, of all services; or one of each, by their names. */
type AnyOutput = PlainOutput | ByService<PlainOutput>
type PlainOf<Output extends AnyOutput> = Extract<Output, PlainOutput>

/** What decides which services serve a source. */
interface ServedSource {
  readonly kind: SourceKind
  readonly inputs: Readonly<Partial<Record<InputName, string>>>
  readonly outputs: Readonly<Record<string, AnyOutput>>
  readonly services:
    | readonly (
        | string
        | {
            readonly name: string
            readonly when?: NextWhen | undefined
            readonly minConfidence: number | null
          }
      )[]
    | null
}

interface Turn extends ConfiguredService {
  readonly when: NextWhen
  readonly minConfidence: number | null
}

const isPlain = <Output extends AnyOutput>(output: Output): output is PlainOf<Output> =>
  typeof output === 'string' || typeof (output as { field?: unknown }).field === 'string'

/** What a service fills a column with; null: nothing. */
export function outputFor<Output extends AnyOutput>(output: Output, name: string): PlainOf<Output> | null {
  if (isPlain(output)) return output
  return ((output as ByService<PlainOf<Output>>)[name] as PlainOf<Output> | undefined) ?? null
}

/** An output, or those by service, each with its path below the column. */
export const listOutputs = <Output extends AnyOutput>(
  output: Output,
): (readonly [path: readonly string[], output: PlainOf<Output>])[] =>
  isPlain(output)
    ? [[[], output]]
    : Object.entries(output as ByService<PlainOf<Output>>).flatMap(([name, one]) =>
        one === undefined ? [] : [[[name], one] as const],
      )

/** The inputs of a source that a service takes. */
const listTaken = ({ kind, inputs }: ServedSource, service: Service): InputName[] =>
  (Object.keys(inputs) as InputName[]).filter((input) =>
    isInputTaken(service[kind]?.inputs ?? new Set(), input, inputs),
  )

const fillsNothing = ({ outputs }: ServedSource, { name }: ConfiguredService): boolean =>
  Object.values(outputs).every((output) => outputFor(output, name ?? '') === null)

const canServe = (source: ServedSource, configured: ConfiguredService): boolean =>
  listTaken(source, configured.service).length > 0 && !fillsNothing(source, configured)

/** The services that serve a source, in their order: those that it lists, or all that can serve it. */
function listTurns(source: ServedSource, services: readonly ConfiguredService[]): Turn[] {
  if (source.services === null)
    return services
      .filter((one) => canServe(source, one))
      .map((one) => ({ ...one, when: 'miss', minConfidence: null }))
  return source.services.flatMap((entry) => {
    const { name, when = 'miss', minConfidence = null } = typeof entry === 'string' ? { name: entry } : entry
    return services.filter((one) => one.name === name).map((one) => ({ ...one, when, minConfidence }))
  })
}

/** A service that serves a source, with its turn and its least confidence there. */
export interface ServingTurn {
  readonly turn: ServiceTurn
  readonly service: Service
  /** Null: that of the source. */
  readonly minConfidence: number | null
}

/** The services of a source, in their order. One at least, of a source that was checked. */
export function turnsOf(source: ServedSource, services: readonly ConfiguredService[]): ServingTurn[] {
  const detailsOf = ({ service }: ConfiguredService) => service[source.kind]?.details ?? []
  const [only] = services
  if (only?.name === null)
    return [
      { turn: { ...ONLY_SERVICE, details: detailsOf(only) }, service: only.service, minConfidence: null },
    ]
  const turns = listTurns(source, services)
  return turns.map((own, index) => {
    const next = turns[index + 1]
    const taken = listTaken(source, own.service)
    return {
      turn: {
        service: own.name,
        services: turns.flatMap((one) => one.name ?? []),
        takes: taken.length === Object.keys(source.inputs).length ? null : taken,
        details: detailsOf(own),
        isFirst: index === 0,
        next: next === undefined || next.name === null ? null : { service: next.name, when: next.when },
      },
      service: own.service,
      minConfidence: own.minConfidence,
    }
  })
}

/** Checks the services of a source against its kind, inputs and outputs. */
export function checkTurns(
  source: ServedSource,
  services: readonly ConfiguredService[],
  context: z.core.$RefinementCtx,
): void {
  const reject = rejecting(context)
  // Half of a name is named as that.
  if (context.issues.some(({ path }) => path?.[0] === 'inputs')) return
  checkListed(source, services, reject)
  const serving = source.services === null ? services : listTurns(source, services)
  if (serving.length === 0) return
  if (serving.every(({ service }) => service[source.kind] === null))
    reject(
      ['kind'],
      undefined,
      `a kind that a service of this source has an endpoint for: ${listNames(serving.map(describeService))}`,
      `Describe \`${source.kind}\` in one of them, or remove the source.`,
    )
  else
    for (const input of Object.keys(source.inputs) as InputName[])
      if (input !== 'company' && !serving.some(({ service }) => listTaken(source, service).includes(input)))
        reject(
          ['inputs', input],
          'an input that no service of this source takes',
          `what they take: ${[...new Set(serving.flatMap(({ service }) => [...(service[source.kind]?.inputs ?? [])]))].join(', ')}`,
          'Remove it here, or add it to `inputs` of the endpoint of one that takes it.',
        )
  const turns = listTurns(source, services)
  const isTaken = services.some(({ service }) => listTaken(source, service).length > 0)
  if (turns.length === 0 && isTaken && context.issues.length === 0)
    reject(
      ['outputs'],
      undefined,
      'a field of a service that takes an input of this source: those that fill a column take none of them',
    )
  checkFields(source, turns, reject)
}

const describeService = ({ name, service }: ConfiguredService): string =>
  name === null ? service.name : `${name} (${service.name})`

function checkListed(source: ServedSource, services: readonly ConfiguredService[], reject: Reject): void {
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

function explainUnserved(source: ServedSource, configured: ConfiguredService): string | null {
  const call = configured.service[source.kind]
  if (call === null) return `has no endpoint for a ${source.kind}`
  if (listTaken(source, configured.service).length === 0)
    return `takes ${listNames([...call.inputs])}, none of which this source has`
  return fillsNothing(source, configured) ? 'no output names' : null
}

/** An output for all services names a field that each of them has. */
function checkFields(source: ServedSource, turns: readonly Turn[], reject: Reject): void {
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

/** The fields that outputs of a service may copy. None: it describes none, and any may be copied. */
export const listFields = ({ service }: ConfiguredService, kind: SourceKind): string[] =>
  Object.keys(service.shapes[kind])

export const adviseUnlisted = (field: string): string =>
  `If the service sends a field that is not listed, write { field: '${field}', unlisted: true }.`

/** What a field of this kind may be, for a message. */
export const describeFields = (kind: SourceKind, fields: readonly string[]): string =>
  `a field of a ${kind} record: ${oneOf(fields)}`
