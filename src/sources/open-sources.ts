import type { SourceMapping } from '../domain/mapping.ts'
import type { Db } from './db.ts'
import { linkSources } from './link.ts'
import { type SourceProblem, SourceProblems } from './problems.ts'
import { openSource } from './source.ts'
import type { Source } from './source-model.ts'

/** A source of the configuration that does not fit its table: it is left out. */
export interface BrokenSource {
  readonly mapping: SourceMapping
  readonly problems: readonly SourceProblem[]
}

/** The sources of a configuration, by name. */
export interface OpenedSources {
  readonly sources: Map<string, Source>
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
  const opened: Source[] = []
  const brokenSources = new Map<string, BrokenSource>()
  for (const mapping of Object.values(mappings))
    try {
      opened.push(await openSource(db, mapping))
    } catch (error) {
      if (!(error instanceof SourceProblems) || isRequired(mapping)) throw error
      brokenSources.set(mapping.name, { mapping, problems: error.problems })
    }
  if (opened.length === 0 && brokenSources.size > 0)
    throw new SourceProblems([...brokenSources.values()].flatMap(({ problems }) => problems))
  const linked = await linkSources(db, opened)
  return { sources: new Map(linked.map((source) => [source.name, source])), brokenSources }
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
