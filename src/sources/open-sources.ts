import type { SourceMapping } from '../domain/mapping.ts'
import type { Db } from './db.ts'
import { linkSources } from './link.ts'
import { type SourceProblem, SourceProblems } from './problems.ts'
import { resolveSource } from './source.ts'
import type { MappedOutput, Source, WholeSource } from './source-model.ts'

/** A source of the configuration that does not fit its table: it is left out. */
export interface BrokenSource {
  readonly mapping: SourceMapping
  readonly problems: readonly SourceProblem[]
}

/** The sources of a configuration, by name. */
export interface OpenedSources {
  readonly sources: Map<string, WholeSource>
  readonly brokenSources: Map<string, BrokenSource>
}

type Mappings = Readonly<Record<string, SourceMapping>>

/**
 * Opens each source. One that does not fit its table is left out, so that the others run.
 * @throws SourceProblems if none fits, or one is required to
 */
export async function openSources(
  db: Db,
  mappings: Mappings,
  isRequired: (mapping: SourceMapping) => boolean = () => false,
): Promise<OpenedSources> {
  const opened: (readonly Source[])[] = []
  const brokenSources = new Map<string, BrokenSource>()
  for (const mapping of Object.values(mappings))
    try {
      opened.push(await openSteps(db, mapping))
    } catch (error) {
      if (!(error instanceof SourceProblems) || isRequired(mapping)) throw error
      brokenSources.set(mapping.name, { mapping, problems: error.problems })
    }
  if (opened.length === 0 && brokenSources.size > 0)
    throw new SourceProblems([...brokenSources.values()].flatMap(({ problems }) => problems))
  // What one step fills may be what another is requested with: the inputs are those of the user for each of them.
  const linked = await linkSources(db, opened.map(toWhole))
  const sources = linked.map((whole, n) => ({ ...whole, steps: linkSteps(whole, opened[n] ?? []) }))
  return { sources: new Map(sources.map((source) => [source.name, source])), brokenSources }
}

/** The steps of a source as far as they could be resolved, and the problems of all of them, each once. */
export async function resolveSteps(
  db: Db,
  { steps, ...mapping }: SourceMapping,
): Promise<{ readonly steps: readonly Source[]; readonly problems: readonly SourceProblem[] }> {
  const resolved: Source[] = []
  const problems = new Map<string, SourceProblem>()
  // A list of their own: what was opened together is known by it (`runs/source-health.ts`).
  const own = [...steps]
  for (const step of own) {
    const one = await resolveSource(db, { ...mapping, ...step, steps: own })
    if (one.source !== null) resolved.push(one.source)
    for (const problem of one.problems) problems.set(`${problem.place} ${problem.found}`, problem)
  }
  return { steps: resolved, problems: [...problems.values()] }
}

async function openSteps(db: Db, mapping: SourceMapping): Promise<readonly Source[]> {
  const { steps, problems } = await resolveSteps(db, mapping)
  if (steps.length < mapping.steps.length || problems.length > 0) throw new SourceProblems(problems)
  return steps
}

/** The first step, with what all of them fill. */
function toWhole(steps: readonly Source[]): Source {
  const [first, ...others] = steps
  if (first === undefined) throw new Error('a source has one step at least')
  const outputs = [...first.outputs]
  for (const step of others) outputs.push(...notAmong(step.outputs, outputs))
  const mapping = { ...first.mapping, outputs: outputs.map((output) => output.mapping) }
  return { ...first, mapping, outputs }
}

/** The steps of a source, each with what it has to know of those before and after it. */
function linkSteps({ ownWrites, freshness, outputs }: Source, steps: readonly Source[]): Source[] {
  const filledBefore = new Set<string>()
  const linked = steps.map((step): Source => {
    const shared = step.freshness && { ...freshness, ...step.freshness }
    const own = { ...step, freshness: shared, ...(ownWrites && { ownWrites }) }
    const all = { ...own, ...(outputs.length > own.outputs.length && { allOutputs: outputs }) }
    const blanks = step.outputs.map((output) => toBlankOnly(output, filledBefore))
    for (const { column } of step.outputs) filledBefore.add(column)
    return step.mapping.turn.isFirst ? all : { ...all, afterFound: { ...all, outputs: blanks } }
  })
  return linked.map(({ afterFound, ...step }, n) => {
    const laterOutputs = listLater(step, linked.slice(n + 1))
    const later = laterOutputs.length === 0 ? {} : { laterOutputs }
    return { ...step, ...later, ...(afterFound && { afterFound: { ...afterFound, ...later } }) }
  })
}

/** What this step alone fills it goes on refreshing: the record of another says nothing about it. */
function toBlankOnly(output: MappedOutput, filledBefore: ReadonlySet<string>): MappedOutput {
  const { policy } = output.mapping
  if (policy === 'tracked' && !filledBefore.has(output.column)) return output
  const mapping = { ...output.mapping, policy: 'blank' as const }
  return { ...output, mapping, ...(policy === 'always' && { keepsEarlier: true }) }
}

/** What later steps fill of a row that goes on to them for its blank cells. */
function listLater(
  { outputs, mapping: { turn } }: Source,
  [next, ...others]: readonly Source[],
): MappedOutput[] {
  if (next === undefined || turn.next?.when !== 'blank') return []
  return notAmong([...(next.afterFound ?? next).outputs, ...listLater(next, others)], outputs)
}

const notAmong = (outputs: readonly MappedOutput[], known: readonly MappedOutput[]): MappedOutput[] =>
  outputs.filter((output) => known.every(({ column }) => column !== output.column))

/** The sources that a service fills, each at its step there. @param service null: the configuration has one */
export function toSteps({ sources, brokenSources }: OpenedSources, service: string | null): OpenedSteps {
  const isServed = ({ mapping }: BrokenSource): boolean =>
    mapping.steps.some(({ turn }) => turn.service === service)
  const steps = [...sources.values()].flatMap((source) =>
    source.steps.filter(({ mapping }) => mapping.turn.service === service),
  )
  return {
    sources: new Map(steps.map((step) => [step.name, step])),
    brokenSources: new Map([...brokenSources].filter(([, broken]) => isServed(broken))),
  }
}

/** The sources of a configuration at the steps of one service, by name. */
export interface OpenedSteps {
  readonly sources: ReadonlyMap<string, Source>
  readonly brokenSources: ReadonlyMap<string, BrokenSource>
}

/** Opens the sources anew, in place of what was opened before. If none fits any more, the former ones stay. */
export async function reopenSources(db: Db, mappings: Mappings, all: OpenedSources): Promise<void> {
  try {
    const { sources, brokenSources } = await openSources(db, mappings)
    all.sources.clear()
    all.brokenSources.clear()
    for (const [name, source] of sources) all.sources.set(name, source)
    for (const [name, one] of brokenSources) all.brokenSources.set(name, one)
  } catch (error) {
    if (!(error instanceof SourceProblems)) throw error
  }
}
