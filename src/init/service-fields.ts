import { toLookupKind } from '../domain/identifiers/kind.ts'
import type { SourceKind } from '../domain/mapping.ts'
import type { LookupCall, Service } from '../domain/service/service.ts'
import { listNames } from '../util/text.ts'
import type { Proposal, ProposedOutput, ProposedSource, SkippedColumn, SkippedTable } from './proposal.ts'

/** How services call a fact, in the words of a path. The built-in field is the key. */
const NAMES: Readonly<Record<SourceKind, Readonly<Record<string, RegExp>>>> = {
  person: {
    title: /^(?:.*current )?(?:job )?title$/,
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

const toWords = (path: string): string => path.toLowerCase().replaceAll(/[._]+/g, ' ')

/**
 * The proposal for a service of its own: its fields in place of the built-in ones, by their names, and only the inputs and
 * kinds that it takes. A column for which it has no field becomes a comment. Pure.
 */
export function adaptProposal(proposal: Proposal, service: Service): Proposal {
  const adapted = proposal.sources.map((source) => adaptSource(source, service))
  return {
    ...proposal,
    sources: adapted.filter((one) => 'outputs' in one),
    skippedTables: [...proposal.skippedTables, ...adapted.filter((one) => 'reason' in one)],
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
  if (outputs.length === 0) return skip(`no column fits a field of ${service.name}`)
  const identifiedBy = Object.entries(source.sample.identifiedBy).filter(([kind]) => call.inputs.has(kind))
  return {
    ...source,
    inputs,
    outputs,
    skippedColumns: [
      ...source.skippedColumns.flatMap((one) => adaptSkipped(one, source, service)),
      ...skipped,
    ],
    sample: { ...source.sample, identifiedBy: Object.fromEntries(identifiedBy) },
  }
}

function adaptOutputs(
  source: ProposedSource,
  service: Service,
): { readonly outputs: ProposedOutput[]; readonly skipped: SkippedColumn[] } {
  const outputs: ProposedOutput[] = []
  const skipped: SkippedColumn[] = []
  for (const output of source.outputs) {
    const field = findField(source.kind, output.field, service)
    const { column } = output
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
  const field = findField(kind, output.field, service)
  return field === null ? [] : [{ column, reason, output: { column, field, type: output.type } }]
}

/** The service's field for a fact: its shortest path with one of the usual names. */
function findField(kind: SourceKind, builtIn: string, { shapes }: Service): string | null {
  const pattern = NAMES[kind][builtIn]
  const fields = Object.keys(shapes[kind]).filter((path) => pattern?.test(toWords(path)) === true)
  return fields.toSorted((a, b) => a.length - b.length)[0] ?? null
}
