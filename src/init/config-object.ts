import type { FoundServices, ProposedOutput, ProposedSource } from './proposal.ts'
import { whereOf } from './questions.ts'

/** Budget of a first run: enough to see results, and cheap if the configuration is wrong. */
export const FIRST_BUDGET = 100

/**
 * The source as an entry of a configuration.
 * @param isReviewed whether a person has confirmed it, at the prompt
 */
export function toSourceConfig(source: ProposedSource, isReviewed = true): Readonly<Record<string, unknown>> {
  const { kind, table, joins, key, changedAt, freshness, inputs, outputs } = source
  const entries = {
    reviewed: isReviewed ? null : false,
    kind,
    table,
    joins,
    key: key?.length === 1 ? key[0] : key,
    where: whereOf(source),
    changedAt,
    inputs: Object.fromEntries(inputs.map(({ input, sql }) => [input, sql])),
    freshness: freshness === null ? null : { column: freshness },
    outputs: Object.fromEntries(outputs.map((output) => [output.column, toOutputConfig(output)])),
  }
  return Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== null))
}

/** Only the field, if there are no other options; by service where they differ. */
export function toOutputConfig({
  column: _column,
  type: _type,
  byService,
  ...options
}: ProposedOutput): string | Readonly<Record<string, unknown>> {
  if (byService) return Object.fromEntries(byService.map(([name, one]) => [name, toOutputConfig(one)]))
  return Object.keys(options).length === 1 ? options.field : options
}

/** The services of a configuration; none for the built-in interface alone. */
export function toServicesConfig({ isNamed, services }: FoundServices): Readonly<Record<string, unknown>> {
  if (isNamed)
    return { services: Object.fromEntries(services.map(({ name, module }) => [name, module ?? {}])) }
  const module = services[0]?.module ?? null
  return module === null ? {} : { service: { adapter: module } }
}

/** A whole configuration, for a .json file. */
export const toConfigObject = (
  accepted: readonly { readonly source: ProposedSource; readonly isReviewed: boolean }[],
  services?: FoundServices,
): object => ({
  $schema: './node_modules/fillrate/fillrate.schema.json',
  ...(services && toServicesConfig(services)),
  sources: Object.fromEntries(
    accepted.map(({ source, isReviewed }) => [source.name, toSourceConfig(source, isReviewed)]),
  ),
  budget: FIRST_BUDGET,
})
