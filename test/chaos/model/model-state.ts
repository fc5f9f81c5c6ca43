import type pg from 'pg'
import { parseConfig } from '../../../src/config/load.ts'

export const HOUR = 3_600_000

export const RULES = {
  attempts: 50,
  concurrency: 32,
  bulk: { minimum: 1, deadlineMs: HOUR, graceMs: 0 },
  timeoutMs: 30_000,
  refreshAfterMs: 1_000 * HOUR,
  retryNotFoundAfterMs: 1_000 * HOUR,
  // Long enough that no statement times out, however busy the machine: only the table's trigger is slow.
  sourceTimeoutMs: HOUR,
  lockedWaitMs: 0,
  price: null,
}

export const config = parseConfig(
  {
    sources: {
      worlds: {
        kind: 'person',
        table: 'worlds',
        inputs: { email: 't.email' },
        outputs: { title: 'title', seniority: 'seniority', phone: { field: 'phone', policy: 'tracked' } },
      },
    },
  },
  null,
)

/** The live service and a test service: a lookup of one is never answered by the other. */
export const SERVICES = [0, 1] as const
export type Service = (typeof SERVICES)[number]

export const scopeOf = (service: Service): string => `service-${service}.example key`

/** A lookup's name in the model: an address, at one of the services. */
export const lookupKey = (email: string, service: Service): string =>
  service === 0 ? email : `${email} at 1`

export const COLUMNS = ['title', 'seniority', 'phone'] as const
export type Column = (typeof COLUMNS)[number]

/** The record of an address at a service; no other address or service has an equal one. */
export const record = (key: string, service: Service) => ({
  email: key,
  title: `${service === 0 ? 'T' : 'U'}:${key}`,
  phone: `${service === 0 ? 'P' : 'Q'}:${key}`,
  // The test service knows none: the field that a record lacks leaves its cell.
  ...(service === 0 && { seniority: `S:${key}` }),
  confidence: 0.9,
})

/** The call event of an address that the service knows. */
export const foundEvent = (email: string, service: Service) =>
  ({ type: 'found', record: record(email, service), confidence: 0.9 }) as const

/** The addresses of world 7 begin with `w7-`. */
export const parseWorld = (key: string): number => Number(/^w(\d+)-/.exec(key)?.[1])

/** The condition by which a pick reads only these worlds. */
export const where = (worlds: readonly number[]): string => `t.world = any ('{${worlds.join(',')}}'::int[])`

/** What must hold, recorded independently of the product: what was billed, what was typed, which records were returned. */
export class ModelState {
  /** By lookup: how often its service did the work. */
  readonly billed = new Map<string, number>()
  /** Lookups whose record has reached us, by an answer or by a signed delivery of a known job. */
  readonly returned = new Set<string>()
  /** By row and column: what a user typed last. */
  readonly typed = new Map<string, string>()
  readonly #emptied = new Set<string>()
  /** By row and address, under one key: those that it has ever had, and those that it has had again. */
  readonly #everHad = new Set<string>()
  readonly #returned = new Set<string>()
  /** By row: every address that it has had. */
  readonly addresses = new Map<number, Set<string>>()
  /** Lookups of erased persons, by whichever of their identifiers. */
  readonly forgotten = new Set<string>()
  readonly violations: string[] = []

  /** The product decides to request a lookup. It may be erased before the call, which then goes out all the same. */
  request(key: string): void {
    if (this.forgotten.has(key)) this.violations.push(`${key} was requested, and is erased`)
  }

  bill(key: string, times = 1): void {
    this.billed.set(key, (this.billed.get(key) ?? 0) + times)
  }

  /** The record of a lookup has reached us. */
  return(key: string): void {
    if (!this.forgotten.has(key)) this.returned.add(key)
  }

  /** What is known of a lookup is erased. It may never be requested again, and an answer that comes later is not stored. */
  erase(key: string): void {
    this.billed.delete(key)
    this.returned.delete(key)
    this.forgotten.add(key)
  }

  /** A user has emptied the cell of a row that Fillrate has finished: it is filled again when the row is due. */
  staysBlank({ id, email }: FinalRow, column: Column): boolean {
    return this.#emptied.has(`${id} ${column}`) && this.#returned.has(`${id} ${email}`)
  }

  /** A user has set the cell to this value; null: emptied it. */
  type(row: number, column: Column, value: string | null): void {
    const cell = `${row} ${column}`
    if (value === null) this.typed.delete(cell)
    else this.typed.set(cell, value)
    if (value === null) this.#emptied.add(cell)
    else this.#emptied.delete(cell)
  }

  addAddress(row: number, email: string): void {
    const name = `${row} ${email}`
    if (this.#everHad.has(name)) this.#returned.add(name)
    this.#everHad.add(name)
    const known = this.addresses.get(row) ?? new Set()
    this.addresses.set(row, known.add(email))
  }
}

export interface FinalRow {
  readonly id: number
  readonly email: string
  readonly title: string | null
  readonly phone: string | null
  readonly seniority: string | null
  readonly state: string | null
  readonly undone: boolean
  /** Details for the failure message. */
  readonly details: string
}

export interface FinalLookup {
  readonly key: string
  readonly service: Service
  readonly state: string
  readonly title: string | null
  readonly unconfirmed_calls: number
}

/** Reads the final rows and lookups, and the changes that wrote the value of another service. */
export async function readFinalState(pool: pg.Pool): Promise<{
  readonly rows: readonly FinalRow[]
  readonly lookups: readonly FinalLookup[]
  readonly mixed: readonly { readonly key: string; readonly run: number; readonly title: string }[]
}> {
  const { rows } = await pool.query<FinalRow>(
    `select t.id, t.email, t.title, t.phone, t.seniority, r.state,
            exists (select from fillrate.changes c where c.key = t.id::text and c.undone_by_change_id is not null) as undone,
            concat_ws(' ', r.state, r.reason, 'run', r.run_id, 'lookup', l.id, l.state, l.run_id, l.sync_only, l.not_before,
                      exists (select from fillrate.answered_lookups u where l.id = u.lookup_id), l.reason) as details
       from worlds t left join fillrate.rows r on r.key = t.id::text left join fillrate.lookups l on l.id = r.lookup_id`,
  )
  const { rows: lookups } = await pool.query<FinalLookup>(
    `select key, service_id as service, state, record ->> 'title' as title, unconfirmed_calls from fillrate.lookups`,
  )
  const { rows: mixed } = await pool.query<{ key: string; run: number; title: string }>(
    `select c.key, c.run_id as run, c.after ->> 'title' as title from fillrate.changes c join fillrate.runs r on r.id = c.run_id
      join fillrate.lookups l on l.id = c.lookup_id
      where not r.options ?| '{undoes,remap}' and c.after ->> 'title' like case l.service_id when 0 then 'U:%' else 'T:%' end`,
  )
  return { rows, lookups, mixed }
}

/** Violations at the end of a sequence, as text; empty if everything holds. */
export function findViolations(
  model: ModelState,
  rows: readonly FinalRow[],
  lookups: readonly FinalLookup[],
): string[] {
  const faults: string[] = []
  const byKey = new Map(lookups.map((lookup) => [lookupKey(lookup.key, lookup.service), lookup]))
  for (const [key, times] of model.billed) {
    const lookup = byKey.get(key)
    // Unconfirmed: the answer was lost with its process, or the job gave no result.
    const allowed = 1 + (lookup?.unconfirmed_calls ?? 0)
    if (times > allowed) faults.push(`${key} was billed ${times} times, ${allowed} are explained`)
  }
  for (const key of model.returned)
    if (!isOwn(byKey.get(key))) faults.push(`the record of ${key} was returned and is lost`)
  for (const lookup of lookups)
    if (lookup.title !== null && !isOwn(lookup))
      faults.push(`the record of ${lookupKey(lookup.key, lookup.service)} is that of ${lookup.title}`)
  for (const row of rows) faults.push(...findRowViolations(model, row, byKey))
  return faults
}

const isOwn = (lookup: FinalLookup | undefined): boolean =>
  lookup !== undefined && lookup.title === record(lookup.key, lookup.service).title

function findRowViolations(
  model: ModelState,
  row: FinalRow,
  byKey: ReadonlyMap<string, FinalLookup>,
): string[] {
  const faults: string[] = []
  const known = model.addresses.get(row.id) ?? new Set()
  // A row that a user completed before it was picked has no state.
  const complete = COLUMNS.every((column) => row[column] !== null)
  if (row.state === 'waiting' || (row.state === null && !complete))
    faults.push(`row ${row.id} is ${row.state ?? 'lost'}: ${row.details}`)
  for (const column of COLUMNS) {
    const value = row[column]
    const cell = `${row.id} ${column}`
    const typed = model.typed.get(cell)
    if (typed !== undefined && value !== typed)
      faults.push(`row ${row.id}: a user typed ${column} ${typed}, and now it is ${value}`)
    if (
      typed === undefined &&
      value !== null &&
      ![...known].some((email) => SERVICES.some((service) => value === record(email, service)[column]))
    )
      faults.push(`row ${row.id}: its ${column} ${value} belongs to another address`)
    // What is known and not typed is written, unless it was undone, or emptied by a user. The test service's record lacks the seniority.
    const isFound = column !== 'seniority' && byKey.get(row.email)?.state === 'found'
    if (typed === undefined && isFound && !row.undone && !model.staysBlank(row, column) && value === null)
      faults.push(`row ${row.id}: its ${column} is known and was not written: ${row.details}`)
  }
  return faults
}
