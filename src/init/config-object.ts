import type { ProposedOutput, ProposedService, ProposedSource } from './proposal.ts'
import { whereOf } from './questions.ts'

/** Budget of a first run: enough to see results, and cheap if the configuration is wrong. */
export const FIRST_BUDGET = 100

/** The source as an entry of a configuration. */
export function toSourceConfig(source: ProposedSource): Readonly<Record<string, unknown>> {
  const where = whereOf(source)
  return {
    kind: source.kind,
    table: source.table,
    ...(source.joins !== null && { joins: source.joins }),
    ...(source.key !== null && { key: source.key.length === 1 ? source.key[0] : source.key }),
    ...(where !== null && { where }),
    ...(source.changedAt !== null && { changedAt: source.changedAt }),
    ...(source.freshness !== null && { freshness: { column: source.freshness } }),
    inputs: Object.fromEntries(source.inputs.map(({ input, sql }) => [input, sql])),
    outputs: Object.fromEntries(source.outputs.map((output) => [output.column, toOutputConfig(output)])),
  }
}

/** Only the field, if there are no other options; by service where they differ. */
export function toOutputConfig({
  field,
  map,
  sql,
  group,
  as,
  matches,
  byService,
}: ProposedOutput): string | Readonly<Record<string, unknown>> {
  if (byService) return Object.fromEntries(byService.map(([name, one]) => [name, toOutputConfig(one)]))
  const options = {
    ...(map && { map }),
    ...(sql !== undefined && { sql }),
    ...(as && { as }),
    ...(matches !== undefined && { matches }),
    ...(group !== undefined && { group }),
  }
  return Object.keys(options).length === 0 ? field : { field, ...options }
}

/** A whole configuration, for a .json file. */
export const toConfigObject = (
  sources: readonly ProposedSource[],
  service: string | null = null,
  services: readonly ProposedService[] = [],
): object => ({
  $schema: './node_modules/fillrate/fillrate.schema.json',
  ...(service !== null && { service: { adapter: service } }),
  ...(services.length > 0 && {
    services: Object.fromEntries(services.map(({ name, module }) => [name, module ?? {}])),
  }),
  sources: Object.fromEntries(sources.map((source) => [source.name, toSourceConfig(source)])),
  budget: FIRST_BUDGET,
})
