import { toLookupKind } from '../domain/identifiers/kind.ts'
import type { SourceKind } from '../domain/mapping.ts'
import type { LookupCall, Service } from '../domain/service/service.ts'
import { listNames } from '../util/text.ts'
import { toWordSet } from './words.ts'
import type { Proposal, ProposedOutput, ProposedSource, SkippedColumn, SkippedTable } from './proposal.ts'

/** How services call a fact, in the words of a path. The built-in field is the key. */
const NAMES: Readonly<Record<SourceKind, Readonly<Record<string, RegExp>>>> = {
  person: {
    title: /^(?:.*current )?(?:(?:job )?title|(?:job )?position)$/,
    seniority: /(?:^|current )seniority$|^job title levels$/,
    department: /(?:^|current )departments?$|^job title role$/,
    phone: /^(?:(?:mobile|work|direct|contact) )?phone(?: number)?$/,
    linkedin: /^linkedin(?: url)?$|professional network url$/,
    'company.name': /(?:company|organization|employer) name$/,
    'company.domain': /(?:company|organization|employer) (?:primary )?(?:domain|website)(?: url)?$/,
  },
  company: {
    legal_name: /^legal name$/,
    industry: /^industry$/,
    sub_industry: /^sub ?industry$/,
    employee_count: /^(?:estimated num employees|employee count|employees|headcount)$/,
    revenue: /^(?:annual |estimated )?revenue$/,
    founded_year: /^founded(?: year| in)?$/,
    'location.city': /^(?:(?:location|address|headquarters) )?(?:city|locality)$/,
    'location.state': /^(?:(?:location|address|headquarters) )?(?:state|region)$/,
    'location.country': /^(?:(?:location|address|headquarters) )?country$/,
    technologies: /^(?:technologies|tech ?stack)$/,
    'social.linkedin': /^(?:social )?linkedin(?: url)?$/,
    'social.twitter': /^(?:social )?(?:twitter|x)(?: url)?$/,
  },
}

/** The words of a name in any convention: `jobTitle`, `job_title`, `job-title`. */
const toWords = (name: string): string =>
  name
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .replaceAll(/[._\- ]+/g, ' ')

/** Parts of a path that leave open whose fact it is: `person.job_title` is one of the person, `manager.title` is not. */
const NEUTRAL_WORDS: Readonly<Record<SourceKind, ReadonlySet<string>>> = {
  person: toWordSet(
    'person people contact lead profile data attributes properties fields details result record match current job position employment role work professional',
  ),
  company: toWordSet(
    'company companies organization account business data attributes properties fields details result record match profile firmographics hq headquarters',
  ),
}

/** What a field may be called: its path in words, and the same without neutral parts at its start. */
function toNames(kind: SourceKind, path: string): string[] {
  const steps = path.split('.').map(toWords)
  const isNeutral = (step: string): boolean => step.split(' ').every((word) => NEUTRAL_WORDS[kind].has(word))
  return steps.flatMap((_, n) => (steps.slice(0, n).every(isNeutral) ? [steps.slice(n).join(' ')] : []))
}

/**
 * The proposal for a service of its own: its fields in place of the built-in ones, by their names, and only the inputs and
 * kinds that it takes. A column for which it has no field becomes a comment, and so does one that has the name of a field
 * and no other meaning. Pure.
 */
export function adaptProposal(proposal: Proposal, service: Service): Proposal {
  const adapted = [...proposal.sources, ...proposal.unfilled].map((source) => adaptSource(source, service))
  const taken = adapted.filter((one) => 'outputs' in one)
  const known = new Set(proposal.unfilled.map(({ table }) => table))
  return {
    ...proposal,
    sources: taken.filter(({ outputs }) => outputs.length > 0),
    unfilled: taken.filter(({ outputs }) => outputs.length === 0),
    skippedTables: [
      ...proposal.skippedTables,
      ...adapted.flatMap((one) => ('reason' in one && !known.has(one.table) ? [one] : [])),
      ...taken.flatMap(({ table, outputs }) =>
        outputs.length > 0 || known.has(table)
          ? []
          : [{ table, reason: `no column fits a field of ${service.name}` }],
      ),
    ],
  }
}

function adaptSource(source: ProposedSource, service: Service): ProposedSource | SkippedTable {
  const call: LookupCall<never> | null = service[source.kind]
  const skip = (reason: string): SkippedTable => ({ table: source.table, reason })
  if (call === null) return skip(`${service.name} has no endpoint for a ${source.kind}`)
  const isTaken = ({ input }: ProposedSource['inputs'][number]): boolean =>
    call.inputs.has(toLookupKind(input))
  const inputs = source.inputs.filter(isTaken)
  if (inputs.length === 0)
    return skip(`${service.name} takes ${listNames([...call.inputs])}, and the table has none of these`)
  const { outputs, skipped } = adaptOutputs(source, service)
  const identifiedBy = Object.entries(source.sample.identifiedBy).filter(([kind]) => call.inputs.has(kind))
  return {
    ...source,
    inputs,
    outputs,
    skippedColumns: [
      ...source.skippedColumns.flatMap((one) => adaptSkipped(one, source, service)),
      ...skipped,
      ...matchOtherColumns(source, service),
    ],
    notes: [...source.notes, ...noteTogether(service, call)],
    sample: { ...source.sample, identifiedBy: Object.fromEntries(identifiedBy) },
  }
}

/** Why each input that a table has is worth mapping. */
export const noteTogether = ({ name }: Service, { isTogether }: LookupCall<never>): string[] =>
  isTogether ? [`A request to ${name} takes along every input that a row has: map all there are.`] : []

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
    const words = toWords(column)
    if (VAGUE_NAMES.has(words)) return []
    const field = findShortest(
      Object.keys(shapes[kind]).filter((path) => toNames(kind, path).includes(words)),
    )
    return field === null
      ? []
      : [{ column, reason: `has the name of a field of ${name}`, output: { column, field, type } }]
  })

function adaptOutputs(
  source: ProposedSource,
  service: Service,
): { readonly outputs: ProposedOutput[]; readonly skipped: SkippedColumn[] } {
  const outputs: ProposedOutput[] = []
  const skipped: SkippedColumn[] = []
  for (const output of source.outputs) {
    const { column } = output
    const field = findField(source.kind, output.field, column, service)
    if (field === null) skipped.push({ column, reason: `has no field of ${service.name} with its name` })
    else if (
      output.map !== undefined ||
      output.sql !== undefined ||
      service.shapes[source.kind][field]?.type === 'list'
    )
      // Labels, parts and forms of the built-in service's values say nothing about another one's.
      skipped.push({
        column,
        reason: `may be filled from ${field}: see what its values look like first`,
        output: { column, field, type: output.type },
      })
    else outputs.push({ ...output, field })
  }
  return { outputs, skipped }
}

const adaptSkipped = (
  { column, reason, output }: SkippedColumn,
  { kind }: ProposedSource,
  service: Service,
): SkippedColumn[] => {
  if (output === undefined) return [{ column, reason }]
  const field = findField(kind, output.field, column, service)
  return field === null ? [] : [{ column, reason, output: { column, field, type: output.type } }]
}

/** The service's field for a fact, by one of the usual names: the one with the name of the column, or the shortest path. */
function findField(kind: SourceKind, builtIn: string, column: string, { shapes }: Service): string | null {
  const pattern = NAMES[kind][builtIn]
  const isNamed = (path: string): boolean =>
    toNames(kind, path).some((words) => pattern?.test(words) === true)
  const fields = Object.keys(shapes[kind]).filter(isNamed)
  const same = fields.filter((path) => toNames(kind, path).includes(toWords(column)))
  return findShortest(same.length > 0 ? same : fields)
}

const findShortest = (paths: readonly string[]): string | null =>
  paths.toSorted((a, b) => a.length - b.length)[0] ?? null
