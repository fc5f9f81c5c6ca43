import { isRaised, sqlStateOf } from '../util/error-text.ts'

/** By which SQLSTATE a Postgres that answers refuses statements, whatever their rows are, and what to do about it. */
interface RefusalText {
  readonly title: string
  readonly action: string
}

const DISK = 'Free space on the disk of Postgres, or enlarge it.'
const RESOURCES = 'Look at what else Postgres is doing, or give it more.'

const REFUSALS: ReadonlyMap<string, RefusalText> = new Map(
  Object.entries({
    '25006': {
      title: 'Postgres takes no writes: it is read-only',
      action: 'Check whether DATABASE_URL leads to a standby, and default_transaction_read_only.',
    },
    '53000': { title: 'Postgres lacks resources', action: RESOURCES },
    '53100': { title: 'Postgres takes no writes: its disk is full', action: DISK },
    '53200': { title: 'Postgres is out of memory', action: RESOURCES },
    '53300': {
      title: 'Postgres has no free connection',
      action: 'Close other connections, lower FILLRATE_MAX_CONNECTIONS, or raise max_connections.',
    },
    '53400': {
      title: 'Postgres refuses statements: they exceed a limit of its configuration',
      action: 'Look into the log of Postgres for the setting, temp_file_limit most likely.',
    },
    '58030': {
      title: 'Postgres cannot read or write its files',
      action: 'Look into the log of Postgres, and check its disk.',
    },
  }),
)

/** Null: an error by which Postgres refuses one statement, and not all. */
export const describeRefusal = (sqlState: string | null | undefined): RefusalText | null =>
  REFUSALS.get(sqlState ?? '') ?? null

/** The SQLSTATE by which an error refuses all statements; null: another error, or one that a function of the user's raises for its row. */
export function refusalOf(error: unknown): string | null {
  const sqlState = sqlStateOf(error)
  return describeRefusal(sqlState) === null || isRaised(error) ? null : (sqlState ?? null)
}

/** Refusals that follow one another. Times in milliseconds, of any clock. */
export interface Refusals {
  readonly sqlState: string
  readonly firstAt: number
  readonly lastAt: number
}

/** Longer than what is refused waits before it is tried again, which is up to five seconds. */
const QUIET_MS = 7_000
/** What is refused once may have met a moment of another statement; steps try again at once. */
const PERSISTENT_MS = 1_000
/** How long after a refusal it is found out whether the next write would be refused. */
const SUSPECT_MS = 60_000

export const addRefusal = (before: Refusals | null, sqlState: string, now: number): Refusals => ({
  sqlState,
  firstAt: before === null || now - before.lastAt >= QUIET_MS ? now : before.firstAt,
  lastAt: now,
})

/** Whether Postgres refuses statements at the moment. */
export const isRefusing = (refusals: Refusals | null, now: number): refusals is Refusals =>
  refusals !== null && now - refusals.lastAt < QUIET_MS && refusals.lastAt - refusals.firstAt >= PERSISTENT_MS

/** Whether it may refuse the next one: where nothing is written, nothing is refused. */
export const isSuspected = (refusals: Refusals | null, now: number): boolean =>
  refusals !== null && now - refusals.lastAt < SUSPECT_MS
