import type { Deps } from '../../pipeline/deps.ts'
import type { PickCandidate } from '../../pipeline/pick/candidates.ts'
import { type DiffRow, previewWriteBack } from '../../pipeline/preview.ts'
import { RandomSample } from '../../pipeline/random-sample.ts'
import type { Source } from '../../sources/source-model.ts'
import { toBlankOnlySource } from '../../sources/views.ts'
import { findRecords } from '../../store/stored-records.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { LookupSpec } from '../../store/upsert-lookups.ts'

/** A row for which records are stored, each at the place of its service in the order. */
export interface AnsweredCandidate {
  readonly candidate: PickCandidate
  readonly answers: readonly { readonly place: number; readonly lookup: LookupSpec }[]
}

/** Some stored records change nothing. */
const CANDIDATES_PER_SAMPLED_ROW = 10

/** Rows to preview, so that some of them change. @param max rows to show */
export const sampleCandidates = (max: number, random: () => number): RandomSample<AnsweredCandidate> =>
  new RandomSample(max * CANDIDATES_PER_SAMPLED_ROW, random)

/** Rows previewed at once. */
const SAMPLE_BATCH_SIZE = 200

interface SampledService {
  readonly deps: Pick<Deps, 'db' | 'policy' | 'service'>
  readonly source: Source
}

/**
 * Previews the values that stored records would give to some of these rows. Writes nothing, calls nothing.
 * @param services those of the source, in their order: a later one fills what those before it leave blank
 */
export async function sampleStoredRecords(
  services: readonly SampledService[],
  candidates: readonly AnsweredCandidate[],
  max: number,
  random: () => number,
): Promise<RandomSample<DiffRow>> {
  const sample = new RandomSample<DiffRow>(max, random)
  for (let offset = 0; offset < candidates.length; offset += SAMPLE_BATCH_SIZE) {
    const batch = candidates.slice(offset, offset + SAMPLE_BATCH_SIZE)
    const byKey = new Map<string, DiffRow>()
    for (const [place, service] of services.entries()) {
      const found = batch.filter(({ answers }) => answers.some((one) => one.place === place))
      const isFirst = ({ answers }: AnsweredCandidate): boolean => answers[0]?.place === place
      const alone = await previewAt(service, service.source, found.filter(isFirst), place)
      const after = found.filter((one) => !isFirst(one))
      for (const diff of [
        ...alone,
        ...(await previewAt(service, toBlankOnlySource(service.source), after, place)),
      ])
        byKey.set(diff.key, addCells(byKey.get(diff.key), diff))
    }
    for (const diff of byKey.values()) sample.add(diff)
  }
  return sample
}

async function previewAt(
  { deps }: SampledService,
  source: Source,
  candidates: readonly AnsweredCandidate[],
  place: number,
): Promise<DiffRow[]> {
  const requests = candidates.flatMap(({ candidate, answers }) =>
    answers
      .filter((one) => one.place === place)
      .map(({ lookup: { kind, key } }) => ({
        row: candidate.key,
        inputHash: candidate.input_hash,
        kind,
        key,
      })),
  )
  if (requests.length === 0) return []
  const previewed = await inTransaction(
    deps.db,
    async (tx) => previewWriteBack(tx, source, await findRecords(tx, source.name, requests, deps.service)),
    deps.policy.sourceTimeoutMs,
  )
  return previewed.flatMap(({ diff }) => diff ?? [])
}

/** What a later service would add to a row. */
function addCells(before: DiffRow | undefined, added: DiffRow): DiffRow {
  if (before === undefined) return added
  const isNew = ({ column }: DiffRow['cells'][number]): boolean =>
    before.cells.every((cell) => cell.column !== column)
  return { ...before, cells: [...before.cells, ...added.cells.filter(isNew)] }
}
