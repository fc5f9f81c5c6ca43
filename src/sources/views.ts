import type { SourceMapping } from '../domain/mapping.ts'
import type { Db } from './db.ts'
import { linkSources } from './link.ts'
import { type OpenedSources, openSources } from './open-sources.ts'
import type { MappedOutput, Source } from './source-model.ts'

/** What this service alone fills it goes on refreshing: the record of another says nothing about it. */
const toBlankOnly =
  ({ filledBefore = [] }: Source) =>
  (output: MappedOutput): MappedOutput => {
    const { policy } = output.mapping
    const isOwn = policy === 'tracked' && !filledBefore.includes(output.column)
    return isOwn ? output : { ...output, mapping: { ...output.mapping, policy: 'blank' } }
  }

const blankOnlySources = new WeakMap<Source, Source>()

/** The source as a service fills it after another one that has found the row: blank cells, and tracked ones that only it fills. */
export function toBlankOnlySource(source: Source): Source {
  const known = blankOnlySources.get(source)
  if (known !== undefined) return known
  const blankOnly = { ...source, outputs: source.outputs.map(toBlankOnly(source)) }
  blankOnlySources.set(source, blankOnly)
  return blankOnly
}

type Mappings = Readonly<Record<string, SourceMapping>>

/**
 * Opens the sources of a configuration with several services, as each of them fills them. A source may be opened for one service and
 * broken for another.
 * @param views the sources of each service, in the services' order
 * @throws SourceProblems if none of a service's sources fits, or one is required to
 */
export async function openViews(
  db: Db,
  views: readonly Mappings[],
  isRequired?: (mapping: SourceMapping) => boolean,
): Promise<OpenedSources[]> {
  const opened: OpenedSources[] = []
  for (const mappings of views) opened.push(await openSources(db, mappings, isRequired))
  if (views.length > 1) await linkViews(db, opened)
  return opened
}

/** All sources, each as its first service sees it, with what the services after it fill. */
export function toWholeSources(views: readonly OpenedSources[]): OpenedSources {
  const [only] = views
  if (only !== undefined && views.length === 1) return only
  const sources = views.flatMap((view) => [...view.sources])
  const broken = views.flatMap((view) => [...view.brokenSources])
  return {
    sources: new Map(
      sources.flatMap(([name, source]) => {
        const others = views.flatMap((view) => view.sources.get(name)?.outputs ?? [])
        return source.mapping.turn.isFirst ? [[name, withOutputs(source, others)] as const] : []
      }),
    ),
    brokenSources: new Map(broken.filter(([, { mapping }]) => mapping.turn.isFirst)),
  }
}

function withOutputs(source: Source, others: readonly MappedOutput[]): Source {
  const outputs = [...source.outputs]
  for (const one of others) outputs.push(...notAmong([one], outputs))
  return { ...source, outputs }
}

/** What one service fills may be what another is requested with: the inputs are those of the user for each of them. */
async function linkViews(db: Db, views: readonly OpenedSources[]): Promise<void> {
  const merged = new Map<string, Source>()
  for (const { sources } of views)
    for (const [name, source] of sources) {
      const { outputs = [], ...known } = merged.get(name) ?? source
      merged.set(name, { ...source, ...known, outputs: [...outputs, ...notAmong(source.outputs, outputs)] })
    }
  for (const { sources } of views)
    for (const [name, source] of sources) {
      const before = new Set(
        listBefore(source, views).flatMap(({ outputs }) => outputs.map(({ column }) => column)),
      )
      const filledBefore = source.outputs.map(({ column }) => column).filter((one) => before.has(one))
      if (filledBefore.length > 0) sources.set(name, { ...source, filledBefore })
    }
  const linked = new Map((await linkSources(db, [...merged.values()])).map((one) => [one.name, one]))
  for (const { sources } of views)
    for (const [name, source] of sources) {
      const { ownWrites, freshness = source.freshness } = linked.get(name) ?? {}
      const later = listLaterOutputs(source, views)
      const all = merged.get(name)?.outputs ?? []
      sources.set(name, {
        ...source,
        freshness,
        ...(ownWrites && { ownWrites }),
        ...(later.length > 0 && { laterOutputs: later }),
        ...(all.length > source.outputs.length && { allOutputs: all }),
      })
    }
}

const notAmong = (outputs: readonly MappedOutput[], known: readonly MappedOutput[]): MappedOutput[] =>
  outputs.filter((output) => known.every(({ column }) => column !== output.column))

/** The same source, as the services before this one fill it. */
function listBefore({ name, mapping: { turn } }: Source, views: readonly OpenedSources[]): Source[] {
  const before = new Set(turn.services.slice(0, turn.services.indexOf(turn.service ?? '')))
  return views
    .flatMap(({ sources }) => sources.get(name) ?? [])
    .filter((one) => before.has(one.mapping.turn.service ?? ''))
}

/** What the services after this one fill of a row that goes on to them for its blank cells. */
function listLaterOutputs(source: Source, views: readonly OpenedSources[]): MappedOutput[] {
  const { next } = source.mapping.turn
  if (next?.when !== 'blank') return []
  const after = views
    .flatMap(({ sources }) => sources.get(source.name) ?? [])
    .find(({ mapping }) => mapping.turn.service === next.service)
  if (after === undefined) return []
  const outputs = [...after.outputs, ...listLaterOutputs(after, views)]
  return notAmong(outputs, source.outputs).map(toBlankOnly(after))
}
