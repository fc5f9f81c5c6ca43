import { toLookupKind } from '../domain/identifiers/kind.ts'
import type { SourceKind } from '../domain/mapping.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { LookupCall, Service } from '../domain/service/service.ts'
import { listNames } from '../util/text.ts'
import { toOutputConfig } from './config-object.ts'
import { type Proposed, doubtOutput, outputField, outputRoles } from './outputs.ts'
import type { FoundService, FoundServices, Proposal, ProposedOutput, ProposedSource } from './proposal.ts'
import { type ColumnRole, scoreName } from './roles.ts'
import { splitIdentifier, toWordSet } from './words.ts'

/** Parts of a path that leave open whose fact it is: `person.job_title` is one of the person, `manager.title` is not. */
const NEUTRAL_WORDS: Readonly<Record<SourceKind, ReadonlySet<string>>> = {
  person: toWordSet(
    'person people contact lead profile data attributes properties fields details result record match current job position employment role work professional',
  ),
  company: toWordSet(
    'company companies organization account business data attributes properties fields details result record match profile firmographics hq headquarters social location',
  ),
}

/** Words of a field that is one of a person's company. */
const COMPANY_WORDS = toWordSet('company organization employer')
/** What a field of this name is about does not follow from it alone. */
const VAGUE_NAMES = toWordSet(
  'id name email type status state source score confidence tags data created updated',
)
/** A name with fewer points is that of another fact. */
const MIN_POINTS = 75
const SAME_NAME = 1_000

/** The service's field for a fact: that of the column's name, or the shortest of those whose path says it best. */
function findField(
  kind: SourceKind,
  role: ColumnRole | undefined,
  column: string,
  { shapes }: Service,
): string | null {
  const said = splitIdentifier(column).join(' ')
  if (role === undefined && VAGUE_NAMES.has(said)) return null
  const isFitting = (words: readonly string[]): boolean =>
    role === undefined ||
    kind === 'company' ||
    words.some((word) => COMPANY_WORDS.has(word)) === role.startsWith('company')
  const score = (words: readonly string[]): number =>
    words.join(' ') === said ? SAME_NAME : role === undefined ? 0 : scoreName(role, words, new Set())
  const [best] = Object.keys(shapes[kind])
    .map((path) => {
      const steps = path.split('.').map(splitIdentifier)
      // The path, and the same without the neutral parts at its start.
      const own = steps.findIndex((step) => !step.every((word) => NEUTRAL_WORDS[kind].has(word)))
      const starts = Array.from({ length: (own === -1 ? steps.length - 1 : own) + 1 }, (_, n) => n)
      const names = starts.map((start) => steps.slice(start).flat()).filter(isFitting)
      return { path, points: Math.max(0, ...names.map(score)) }
    })
    .filter(({ points }) => points >= MIN_POINTS)
    .toSorted((a, b) => b.points - a.points || a.path.length - b.path.length)
  return best?.path ?? null
}

/** A column of a source. Without an output and a reason, it means nothing by its name. */
interface Column {
  readonly column: string
  readonly type: string
  /** How the built-in interface fills it. */
  readonly output?: ProposedOutput
  /** Why it is not filled; null: it is. */
  readonly reason: string | null
}

const listColumns = ({ outputs, skippedColumns, otherColumns }: ProposedSource): Column[] => [
  ...outputs.map((output) => ({ ...output, output, reason: null })),
  ...skippedColumns.map((one) => ({ ...one, type: one.output?.type ?? '' })),
  ...otherColumns.map((one) => ({ ...one, reason: null })),
]

/** How a service fills a column; a comment where only the names say so. */
function fillColumn(kind: SourceKind, one: Column, service: Service): Proposed | null {
  const { column, type, output, reason } = one
  const isUnknown = output === undefined && reason === null
  if (service === BUILT_IN_SERVICE) {
    if (reason === null) return output ?? null
    return output ? doubtOutput(output, reason) : { column, reason }
  }
  const role = outputRoles(kind).find((role) => outputField(kind, role) === output?.field)
  const field = output || isUnknown ? findField(kind, role, column, service) : null
  if (field === null && isUnknown) return null
  if (field === null) return { column, reason: reason ?? `has no field of ${service.name} with its name` }
  // Labels, parts and forms of the built-in service's values say nothing about another one's.
  const isOpen = output?.map ?? output?.sql ?? service.shapes[kind][field]?.type === 'list'
  if (output && reason === null && isOpen === false) return { ...output, field }
  const doubt = isUnknown
    ? `has the name of a field of ${service.name}`
    : `may be filled from ${field}: see what its values look like first`
  return doubtOutput({ column, field, type }, reason ?? doubt)
}

type ServingService = FoundService & { readonly call: LookupCall<never> }

/** The source with the inputs that one of the services takes, and each column as they fill it; or why no service can. */
function adaptSource(
  source: ProposedSource,
  services: readonly FoundService[],
): ProposedSource | { readonly reason: string } {
  const { kind, sample } = source
  const serving = services.flatMap((one): ServingService[] => {
    const call: LookupCall<never> | null = one.service[kind]
    const isAble = source.inputs.some(({ input }) => call?.inputs.has(toLookupKind(input)) === true)
    return call !== null && isAble ? [{ ...one, call }] : []
  })
  if (serving.length === 0) {
    const reasons = services.map(({ service }) => {
      const call: LookupCall<never> | null = service[kind]
      return call === null
        ? `${service.name} has no endpoint for a ${kind}`
        : `${service.name} takes ${listNames([...call.inputs])}, and the table has none of these`
    })
    return { reason: reasons.join('; ') }
  }
  const isTaken = (input: string): boolean => serving.some(({ call }) => call.inputs.has(input))
  const adapted = listColumns(source).flatMap((column) => mergeColumn(kind, column, serving) ?? [])
  return {
    ...source,
    inputs: source.inputs.filter(({ input }) => isTaken(toLookupKind(input))),
    outputs: adapted.filter((one) => 'field' in one),
    skippedColumns: adapted.filter((one) => 'reason' in one),
    notes: [
      ...source.notes,
      // Why each input that a table has is worth mapping.
      ...serving.flatMap(({ service, call }) =>
        call.isTogether
          ? [`A request to ${service.name} takes along every input that a row has: map all there are.`]
          : [],
      ),
    ],
    sample: {
      ...sample,
      identifiedBy: Object.fromEntries(Object.entries(sample.identifiedBy).filter(([name]) => isTaken(name))),
    },
  }
}

/** One output for all services where each fills the column in the same way, or else those of each. */
function mergeColumn(kind: SourceKind, column: Column, serving: readonly ServingService[]): Proposed | null {
  const made = serving.flatMap(({ name, service }) => {
    const one = fillColumn(kind, column, service)
    return one === null ? [] : [[name, one] as const]
  })
  const byService = made.flatMap(([name, one]) => ('field' in one ? [[name, one] as const] : []))
  const [first] = byService
  if (first === undefined) return made[0]?.[1] ?? null
  const forms = new Set(byService.map(([, one]) => JSON.stringify(toOutputConfig(one))))
  return forms.size === 1 && byService.length === serving.length ? first[1] : { ...first[1], byService }
}

/**
 * The proposal for services: the inputs, kinds and fields that they have in place of the built-in ones. A column for which they have
 * no field becomes a comment, and so does one that has the name of a field and no other meaning. Pure.
 */
export function proposeForServices(found: Proposal, { services }: FoundServices): Proposal {
  if (services.every(({ service }) => service === BUILT_IN_SERVICE)) return found
  const adapted = [...found.sources, ...found.unfilled].map((source) => ({
    table: source.table,
    made: adaptSource(source, services),
  }))
  const sources = adapted.flatMap(({ made }) => ('outputs' in made && made.outputs.length > 0 ? [made] : []))
  const filled = new Set(sources.map(({ table }) => table))
  const none = `no column fits a field of ${listNames(services.map(({ service }) => service.name))}`
  const skipped = adapted.map(({ table, made }) => ({
    table,
    reason: 'outputs' in made ? none : made.reason,
  }))
  const tables = new Set([...filled, ...skipped.map(({ table }) => table)])
  return {
    ...found,
    sources,
    skippedTables: [
      ...found.skippedTables.filter(({ table }) => !tables.has(table)),
      ...skipped.filter(({ table }) => !filled.has(table)),
    ],
  }
}
