import { INPUT_NAMES, toLookupKind } from '../domain/identifiers/kind.ts'
import type { InputName, SourceKind } from '../domain/mapping.ts'
import type { LookupCall, Service } from '../domain/service/service.ts'
import type { ProposedOutput, ProposedSource } from './proposal.ts'
import { noteTogether } from './service-fields.ts'

const NAMES: Readonly<Record<SourceKind, string>> = { person: 'people', company: 'companies' }
const COLUMNS: Readonly<Record<InputName, string>> = {
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
    const inputs = INPUT_NAMES[kind].flatMap((input) =>
      call.inputs.has(toLookupKind(input)) ? [{ input, sql: COLUMNS[input] }] : [],
    )
    return [
      completeOutputs(
        {
          name: NAMES[kind],
          kind,
          table: NAMES[kind],
          rows: null,
          joins: null,
          key: null,
          where: null,
          changedAt: null,
          freshness: null,
          touch: null,
          inputs,
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
      ),
    ]
  })
}

/** With the columns that have the name of a field, or with columns that have yet to be named. */
function completeOutputs(source: ProposedSource, { name, shapes }: Service): ProposedSource {
  const matched = source.skippedColumns.flatMap(({ output }) => output ?? [])
  if (matched.length > 0)
    return {
      ...source,
      outputs: matched,
      skippedColumns: source.skippedColumns.filter(({ output }) => output === undefined),
      notes: [...source.notes, 'The columns are proposed by their names alone: look at some values first.'],
    }
  const fields = Object.keys(shapes[source.kind]).slice(0, MAX_FIELDS)
  return {
    ...source,
    outputs: (fields.length > 0 ? fields : ['title']).map(toOutput),
    notes: [...source.notes, `No column has the name of a field of ${name}: put in those to fill.`],
  }
}

const toOutput = (field: string): ProposedOutput => ({
  column: field.replaceAll('.', '_'),
  field,
  type: 'text',
})
