import { toLookupKind } from '../domain/identifiers/kind.ts'
import type { SourceKind } from '../domain/mapping.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { LookupCall, Service } from '../domain/service/service.ts'
import { listNames } from '../util/text.ts'
import { toOutputConfig } from './config-object.ts'
import { type Proposed, doubtOutput } from './outputs.ts'
import type {
  FoundService,
  FoundServices,
  Proposal,
  ProposedOutput,
  ProposedSource,
  SkippedColumn,
  SkippedTable,
} from './proposal.ts'
import { outputField, rolesOf, scoreName } from './roles.ts'
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
/** A name with fewer points is that of another fact. */
const MIN_POINTS = 75

/** The service's field for a fact: that of the column's name, or the shortest of those whose path says it best. */
function findField(kind: SourceKind, { column, field }: ProposedOutput, { shapes }: Service): string | null {
  const role = rolesOf(kind).find((one) => outputField(kind, one) === field)
  if (role === undefined) return null
  const said = splitIdentifier(column).join()
  const isOfCompany = (words: readonly string[]): boolean => words.some((word) => COMPANY_WORDS.has(word))
  const score = (words: readonly string[]): number =>
    kind === 'person' && isOfCompany(words) !== role.startsWith('company')
      ? 0
      : scoreName(role, words, new Set()) * (words.join() === said ? 10 : 1)
  const [best] = Object.keys(shapes[kind])
    .map((path) => ({ path, points: Math.max(...toNames(kind, path).map(score)) }))
    .filter(({ points }) => points >= MIN_POINTS)
    .toSorted((a, b) => b.points - a.points || a.path.length - b.path.length)
  return best?.path ?? null
}

/** What a field may be called: the words of its path, and the same without neutral parts at its start. */
function toNames(kind: SourceKind, path: string): string[][] {
  const steps = path.split('.').map(splitIdentifier)
  const isNeutral = (step: readonly string[]): boolean => step.every((word) => NEUTRAL_WORDS[kind].has(word))
  return steps.flatMap((_, n) => (steps.slice(0, n).every(isNeutral) ? [steps.slice(n).flat()] : []))
}

/** How a service fills a column, or why it does not. */
function fillColumn(kind: SourceKind, output: ProposedOutput, service: Service): Proposed {
  if (service === BUILT_IN_SERVICE) return output
  const { column, type, map, sql } = output
  const field = findField(kind, output, service)
  if (field === null) return { column, reason: `has no field of ${service.name} with its name` }
  // Labels, parts and forms of the built-in service's values say nothing about another one's.
  const isOpen = map !== undefined || sql !== undefined || service.shapes[kind][field]?.type === 'list'
  return isOpen
    ? doubtOutput({ column, field, type }, `may be filled from ${field}: see what its values look like first`)
    : { ...output, field }
}

/** One output for all services where each fills the column in the same way, or else those of each. */
function fillByEach(kind: SourceKind, output: ProposedOutput, services: readonly FoundService[]): Proposed {
  const made = services.map(({ name, service }) => [name, fillColumn(kind, output, service)] as const)
  const byService = made.flatMap(([name, one]) => ('field' in one ? [[name, one] as const] : []))
  const [first] = byService
  if (first === undefined) return made[0]?.[1] ?? output
  const forms = new Set(byService.map(([, one]) => JSON.stringify(toOutputConfig(one))))
  return forms.size === 1 && byService.length === services.length ? first[1] : { ...first[1], byService }
}

/** The source as services fill it that can look its rows up. */
function adaptSource(source: ProposedSource, serving: readonly FoundService[]): ProposedSource {
  const { kind, sample, inputs, notes } = source
  const isTaken = (input: string): boolean => serving.some(({ service }) => service[kind]?.inputs.has(input))
  const outputs = source.outputs.map((output) => fillByEach(kind, output, serving))
  const skipped = source.skippedColumns.map(({ output, ...one }): SkippedColumn => {
    const made = output && fillByEach(kind, output, serving)
    return made && 'field' in made ? { ...one, output: made } : one
  })
  return {
    ...source,
    inputs: inputs.filter(({ input }) => isTaken(toLookupKind(input))),
    outputs: outputs.filter((one) => 'field' in one),
    skippedColumns: [...outputs.filter((one) => 'reason' in one), ...skipped],
    notes,
    sample: {
      ...sample,
      identifiedBy: Object.fromEntries(Object.entries(sample.identifiedBy).filter(([name]) => isTaken(name))),
    },
  }
}

/** Why a service can look up no row of a source; null if it can. */
function describeUnable({ kind, inputs }: ProposedSource, service: Service): string | null {
  const call: LookupCall<never> | null = service[kind]
  if (call === null) return `${service.name} has no endpoint for a ${kind}`
  return inputs.some(({ input }) => call.inputs.has(toLookupKind(input)))
    ? null
    : `${service.name} takes ${listNames([...call.inputs])}, and the table has none of these`
}

/**
 * The proposal for services: the inputs, kinds and fields that they have in place of the built-in ones. A column for which they have
 * no field becomes a comment. Pure.
 */
export function proposeForServices(found: Proposal, { services }: FoundServices): Proposal {
  if (services.every(({ service }) => service === BUILT_IN_SERVICE)) return found
  const adapt = (source: ProposedSource): ProposedSource | SkippedTable => {
    const serving = services.filter(({ service }) => describeUnable(source, service) === null)
    const adapted = adaptSource(source, serving)
    if (serving.length > 0 && adapted.outputs.length > 0) return adapted
    const unable = services.flatMap(({ service }) => describeUnable(source, service) ?? [])
    const names = listNames(services.map(({ service }) => service.name))
    return {
      table: source.table,
      reason: serving.length === 0 ? unable.join('; ') : `no column fits a field of ${names}`,
    }
  }
  const made = found.sources.map(adapt)
  return {
    ...found,
    sources: made.filter((one) => 'outputs' in one),
    possible: found.possible.flatMap(({ source, reason }) => {
      const one = adapt(source)
      return 'outputs' in one ? [{ source: one, reason }] : []
    }),
    skippedTables: [...found.skippedTables, ...made.filter((one) => 'reason' in one)],
  }
}
