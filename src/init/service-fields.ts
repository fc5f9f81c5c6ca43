import { INPUT_NAMES, toLookupKind } from '../domain/identifiers/kind.ts'
import type { InputName, SourceKind } from '../domain/mapping.ts'
import type { LookupCall, Service } from '../domain/service/service.ts'
import { listNames } from '../util/text.ts'
import { outputRoles, outputField } from './outputs.ts'
import type { Proposal, ProposedOutput, ProposedSource, SkippedColumn, SkippedTable } from './proposal.ts'
import { scoreName } from './roles.ts'
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

/** What a field may be called: the words of its path, and the same without neutral parts at its start. */
function toNames(kind: SourceKind, path: string): string[][] {
  const steps = path.split('.').map(splitIdentifier)
  const isNeutral = (step: readonly string[]): boolean => step.every((word) => NEUTRAL_WORDS[kind].has(word))
  return steps.flatMap((_, n) => (steps.slice(0, n).every(isNeutral) ? [steps.slice(n).flat()] : []))
}

/** Words of a field that is one of a person's company. */
const COMPANY_WORDS = toWordSet('company organization employer')
/** A name with fewer points is that of another fact. */
const MIN_POINTS = 75

/** The service's field for a fact, by its name: the one with the name of the column, or the shortest of those with most points. */
function findField(kind: SourceKind, builtIn: string, column: string, { shapes }: Service): string | null {
  const role = outputRoles(kind).find((one) => outputField(kind, one) === builtIn)
  if (role === undefined) return null
  const isOfCompany = role.startsWith('company')
  const fields = Object.keys(shapes[kind]).flatMap((path) => {
    const names = toNames(kind, path).filter(
      (words) => kind === 'company' || words.some((word) => COMPANY_WORDS.has(word)) === isOfCompany,
    )
    const points = Math.max(0, ...names.map((words) => scoreName(role, words, new Set())))
    return points < MIN_POINTS ? [] : [{ path, points, isSame: isNamed(kind, path, column) }]
  })
  const [best] = fields.toSorted(
    (a, b) => Number(b.isSame) - Number(a.isSame) || b.points - a.points || a.path.length - b.path.length,
  )
  return best?.path ?? null
}

const isNamed = (kind: SourceKind, path: string, column: string): boolean =>
  toNames(kind, path).some((words) => words.join() === splitIdentifier(column).join())

/**
 * The proposal for a service of its own: its fields in place of the built-in ones, by their names, and only the inputs and
 * kinds that it takes. A column for which it has no field becomes a comment, and so does one that has the name of a field
 * and no other meaning. Pure.
 */
export function adaptProposal(proposal: Proposal, service: Service): Proposal {
  const known = new Set(proposal.unfilled.map(({ table }) => table))
  const adapted = [...proposal.sources, ...proposal.unfilled].map((source) => adaptSource(source, service))
  const taken = adapted.filter((one) => 'outputs' in one)
  const skipped = adapted.flatMap((one): SkippedTable[] => {
    if (known.has(one.table) || ('outputs' in one && one.outputs.length > 0)) return []
    return ['reason' in one ? one : { table: one.table, reason: `no column fits a field of ${service.name}` }]
  })
  return {
    ...proposal,
    sources: taken.filter(({ outputs }) => outputs.length > 0),
    unfilled: taken.filter(({ outputs }) => outputs.length === 0),
    skippedTables: [...proposal.skippedTables, ...skipped],
  }
}

function adaptSource(source: ProposedSource, service: Service): ProposedSource | SkippedTable {
  const { kind, table, sample } = source
  const call: LookupCall<never> | null = service[kind]
  if (call === null) return { table, reason: `${service.name} has no endpoint for a ${kind}` }
  const inputs = source.inputs.filter(({ input }) => call.inputs.has(toLookupKind(input)))
  if (inputs.length === 0)
    return {
      table,
      reason: `${service.name} takes ${listNames([...call.inputs])}, and the table has none of these`,
    }
  const adapted = [
    ...source.outputs.map((output) => adaptOutput(output, source, service)),
    ...source.skippedColumns.map((one) => adaptSkipped(one, source, service)),
  ]
  const identifiedBy = Object.entries(sample.identifiedBy).filter(([name]) => call.inputs.has(name))
  return {
    ...source,
    inputs,
    outputs: adapted.filter((one) => 'field' in one),
    skippedColumns: [...adapted.filter((one) => 'reason' in one), ...matchOtherColumns(source, service)],
    notes: [...source.notes, ...noteTogether(service, call)],
    sample: { ...sample, identifiedBy: Object.fromEntries(identifiedBy) },
  }
}

/** Why each input that a table has is worth mapping. */
const noteTogether = ({ name }: Service, { isTogether }: LookupCall<never>): string[] =>
  isTogether ? [`A request to ${name} takes along every input that a row has: map all there are.`] : []

function adaptOutput(
  output: ProposedOutput,
  { kind }: ProposedSource,
  service: Service,
): ProposedOutput | SkippedColumn {
  const { column, type, map, sql } = output
  const field = findField(kind, output.field, column, service)
  if (field === null) return { column, reason: `has no field of ${service.name} with its name` }
  // Labels, parts and forms of the built-in service's values say nothing about another one's.
  const isOpen = map !== undefined || sql !== undefined || service.shapes[kind][field]?.type === 'list'
  return isOpen
    ? {
        column,
        reason: `may be filled from ${field}: see what its values look like first`,
        output: { column, field, type },
      }
    : { ...output, field }
}

function adaptSkipped(
  { column, reason, output }: SkippedColumn,
  { kind }: ProposedSource,
  service: Service,
): SkippedColumn {
  const field = output === undefined ? null : findField(kind, output.field, column, service)
  return { column, reason, ...(output && field && { output: { column, field, type: output.type } }) }
}

/** What a field of this name is about does not follow from it alone. */
const VAGUE_NAMES = toWordSet(
  'id name email type status state source score confidence tags data created updated',
)

/** Columns with the name of a field, to be uncommented. */
const matchOtherColumns = (
  { kind, otherColumns }: ProposedSource,
  { shapes, name }: Service,
): SkippedColumn[] =>
  otherColumns.flatMap(({ column, type }) => {
    if (VAGUE_NAMES.has(splitIdentifier(column).join(' '))) return []
    const [field] = Object.keys(shapes[kind])
      .filter((path) => isNamed(kind, path, column))
      .toSorted((a, b) => a.length - b.length)
    return field === undefined
      ? []
      : [{ column, reason: `has the name of a field of ${name}`, output: { column, field, type } }]
  })

const EXAMPLE_COLUMNS: Readonly<Record<InputName, string>> = {
  email: 't.email',
  linkedin_url: 't.linkedin_url',
  name: 't.name',
  company: 't.company',
  domain: 't.website',
}

/** Fields to begin with. */
const MAX_FIELDS = 3

/**
 * A configuration to be completed, for a service of its own where no proposal is possible: the tables whose rows can be
 * looked up, or else one for each kind that the service has, with the inputs that it takes and some of its fields. Pure.
 */
export function createSkeleton(service: Service, unfilled: readonly ProposedSource[]): ProposedSource[] {
  if (unfilled.length > 0) return unfilled.map((source) => completeOutputs(source, service))
  return (['person', 'company'] as const).flatMap((kind) => {
    const call: LookupCall<never> | null = service[kind]
    if (call === null) return []
    const table = kind === 'person' ? 'people' : 'companies'
    const nothing = {
      rows: null,
      joins: null,
      key: null,
      where: null,
      changedAt: null,
      freshness: null,
      touch: null,
    }
    return completeOutputs(
      {
        ...nothing,
        name: table,
        kind,
        table,
        inputs: INPUT_NAMES[kind].flatMap((input) =>
          call.inputs.has(toLookupKind(input)) ? [{ input, sql: EXAMPLE_COLUMNS[input] }] : [],
        ),
        outputs: [],
        skippedColumns: [],
        otherColumns: [],
        questions: [],
        notes: [
          `No table was recognised. Put in yours, and the columns of what ${service.name} takes; \`fillrate check\` says what is not there.`,
          ...noteTogether(service, call),
        ],
        sample: { rows: 0, identifiedBy: {} },
      },
      service,
    )
  })
}

/** With the columns that have the name of a field, or with columns that have yet to be named. */
function completeOutputs(source: ProposedSource, { name, shapes }: Service): ProposedSource {
  const matched = source.skippedColumns.flatMap(({ output }) => output ?? [])
  const fields = Object.keys(shapes[source.kind]).slice(0, MAX_FIELDS)
  const named = (fields.length > 0 ? fields : ['title']).map((field) => ({
    column: field.replaceAll('.', '_'),
    field,
    type: 'text',
  }))
  return {
    ...source,
    outputs: matched.length > 0 ? matched : named,
    skippedColumns: source.skippedColumns.filter(({ output }) => output === undefined),
    notes: [
      ...source.notes,
      matched.length > 0
        ? 'The columns are proposed by their names alone: look at some values first.'
        : `No column has the name of a field of ${name}: put in those to fill.`,
    ],
  }
}
