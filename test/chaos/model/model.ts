import { questionOf, record, SERVICES, type Service } from './world.ts'

/** What must hold, kept beside the product by the simplest means: what was paid, what was typed, what was given out. */
export class Model {
  /** By question: how often its service did the work. */
  readonly paid = new Map<string, number>()
  /** Questions for which a record has reached us: an answer, or a signed delivery that names its job. */
  readonly given = new Set<string>()
  /** By row and column: what a person typed last. */
  readonly typed = new Map<string, string>()
  /** By row: every address it has had. */
  readonly addresses = new Map<number, Set<string>>()

  pay(key: string, times = 1): void {
    this.paid.set(key, (this.paid.get(key) ?? 0) + times)
  }

  address(row: number, key: string): void {
    const had = this.addresses.get(row) ?? new Set()
    this.addresses.set(row, had.add(key))
  }
}

export interface FinalRow {
  readonly id: number
  readonly email: string
  readonly title: string | null
  readonly phone: string | null
  readonly state: string | null
  readonly undone: boolean
  /** For whoever reads what is wrong. */
  readonly why: string
}

export interface FinalLookup {
  readonly key: string
  readonly service: Service
  readonly state: string
  readonly title: string | null
  readonly in_doubt: number
  readonly single: boolean
}

/** What is wrong at the end of everything, in words; empty when all holds. */
export function faultsOf(model: Model, rows: readonly FinalRow[], lookups: readonly FinalLookup[]): string[] {
  const faults: string[] = []
  const byKey = new Map(lookups.map((lookup) => [questionOf(lookup.key, lookup.service), lookup]))
  for (const [key, times] of model.paid) {
    const lookup = byKey.get(key)
    // In doubt: its answer was lost with its process, or its job gave it no result.
    const allowed = 1 + (lookup?.in_doubt ?? 0)
    if (times > allowed) faults.push(`${key} was paid ${times} times, ${allowed} are explained`)
  }
  for (const key of model.given)
    if (!isOwn(byKey.get(key))) faults.push(`the record of ${key} was given out and is lost`)
  for (const lookup of lookups)
    if (lookup.title !== null && !isOwn(lookup))
      faults.push(`the record of ${questionOf(lookup.key, lookup.service)} is that of ${lookup.title}`)
  for (const row of rows) faults.push(...faultsOfRow(model, row, byKey))
  return faults
}

const isOwn = (lookup: FinalLookup | undefined): boolean =>
  lookup !== undefined && lookup.title === record(lookup.key, lookup.service).title

function faultsOfRow(model: Model, row: FinalRow, byKey: ReadonlyMap<string, FinalLookup>): string[] {
  const faults: string[] = []
  const had = model.addresses.get(row.id) ?? new Set()
  // A row in which a person has typed everything before it was picked is nobody's business.
  const complete = row.title !== null && row.phone !== null
  if (row.state === 'waiting' || (row.state === null && !complete))
    faults.push(`row ${row.id} is ${row.state ?? 'lost'}: ${row.why}`)
  for (const column of ['title', 'phone'] as const) {
    const value = row[column]
    const typed = model.typed.get(`${row.id} ${column}`)
    if (typed !== undefined && value !== typed)
      faults.push(`row ${row.id}: a person typed ${column} ${typed}, and now it is ${value}`)
    if (
      typed === undefined &&
      value !== null &&
      ![...had].some((key) => SERVICES.some((service) => value === record(key, service)[column]))
    )
      faults.push(`row ${row.id}: its ${column} ${value} is somebody else's`)
    // What is known and not typed is written, unless somebody has taken it back.
    const known = byKey.get(row.email)?.state === 'found'
    if (typed === undefined && known && !row.undone && value === null)
      faults.push(`row ${row.id}: its ${column} is known and was not written`)
  }
  return faults
}
