import { parseConfig } from '../../../src/config/parse.ts'
import type { SourceMapping } from '../../../src/domain/mapping.ts'
import { toConfigObject } from '../../../src/init/config-object.ts'
import type { Question } from '../../../src/init/proposal.ts'
import { proposeForTables } from '../../../src/init/propose.ts'
import { verifyProposedSource } from '../../../src/init/verify.ts'
import type { TestDatabase } from '../database.ts'
import { fieldOf, type SchemaExpectation } from './expectation.ts'

/** A proposed source, and what is asked about its rows. */
export type ProposedMapping = SourceMapping & {
  readonly questions?: readonly Question[]
  /** Its condition without the safe answers to the questions. */
  readonly certain?: string | null
  /** Whether it is proposed only if a person says so. */
  readonly isDoubted?: boolean
}

/** The sources that `init` would write into its file for this database, with the questions that it would ask. */
export async function proposeMappings({ db }: TestDatabase): Promise<ProposedMapping[]> {
  const { sources, possible } = await proposeForTables(db, [], () => {})
  const verified = []
  for (const source of [...sources, ...possible.map((one) => one.source)])
    verified.push(await verifyProposedSource(db, source))
  const accepted = verified.flatMap((one) => ('reason' in one ? [] : [{ ...one, isReviewed: true }]))
  if (accepted.length === 0) return []
  return Object.values(parseConfig(toConfigObject(accepted), null).sources).map((mapping, n) => ({
    ...mapping,
    questions: accepted[n]?.source.questions ?? [],
    certain: accepted[n]?.source.where ?? null,
    isDoubted: possible.some(({ source }) => source.name === accepted[n]?.source.name),
  }))
}

/** The sources that the expectation describes: what its score must be full for. */
export function expectedMappings({ sources }: SchemaExpectation): SourceMapping[] {
  const entries = sources.flatMap((source, n) => {
    const { kind, table, joins, inputs, excluded, freshness } = source
    const outputs = Object.entries(source.outputs).map(
      ([column, output]) => [column, fieldOf(output)] as const,
    )
    const conditions = Object.values(excluded).map((condition) => `(${condition}) is not true`)
    if (outputs.length === 0) return []
    const mapping = {
      kind,
      table,
      ...(joins !== undefined && { joins }),
      ...(conditions.length > 0 && { where: conditions.join(' and ') }),
      ...(freshness !== undefined && { freshness: { column: freshness } }),
      inputs,
      outputs: Object.fromEntries(outputs),
    }
    return [[`source_${n}`, mapping] as const]
  })
  return Object.values(parseConfig({ sources: Object.fromEntries(entries) }, null).sources)
}
