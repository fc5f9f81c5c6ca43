import type { ObservedTrouble } from './trouble-facts.ts'
import { OWN_TROUBLE_TTL_MS, type Trouble, type TroubleCode, toHost, toTroubleKind } from './trouble.ts'

/** A trouble as it is stored. */
export interface RecordedTrouble extends Trouble {
  readonly id: number
  /** When a process last saw that it holds. */
  readonly seenAt: Date
  /** When the process observed it, for example by a refused call; of a trouble that is over, when its end was proved, if it was. */
  readonly knownAt: Date
  readonly reporter: string
}

export interface TroubleReport {
  /** The process: host name and process id. */
  readonly reporter: string
  /** The codes that this report covers: an open trouble of them that was not observed has ended. */
  readonly codes: readonly TroubleCode[]
  /** The one subject that it covers. Default: all. */
  readonly subject?: string
  /** When the facts were read, by Postgres's clock. Default: now. A trouble that another process has seen since stays. */
  readonly at?: Date
  /** What this process knows to be over, in whatever process it was seen: an accepted call ends a refused key. */
  readonly proofs?: readonly TroubleProof[]
  /** Processes that live may not have reported since Postgres was away: their silence says nothing. Default: no. */
  readonly mayBeLate?: boolean
}

/** What shows that a trouble is over, if no process has learnt since that it holds. */
interface TroubleProof extends Pick<Trouble, 'code' | 'subject'> {
  /** By Postgres's clock. Default: now. */
  readonly at?: Date
}

/** What a report changes in the record. */
export interface RecordChanges {
  readonly begun: readonly Omit<RecordedTrouble, 'id' | 'severity'>[]
  readonly refreshed: readonly Pick<RecordedTrouble, 'id' | 'seenAt' | 'knownAt' | 'details'>[]
  readonly ended: readonly Pick<RecordedTrouble, 'id' | 'knownAt'>[]
  /** What was observed although it has ended since its process learnt it: another process has proved that. */
  readonly disproved: readonly Pick<Trouble, 'code' | 'subject'>[]
}

const isSame = (a: Pick<Trouble, 'code' | 'subject'>, b: Pick<Trouble, 'code' | 'subject'>): boolean =>
  a.code === b.code && a.subject === b.subject

/**
 * Decides what a report begins, refreshes and ends. A report whose facts are older than another process's neither ends a
 * trouble that the other has seen nor begins one that it has ended. Pure.
 * @param recorded the open troubles, and the latest end of each observed one
 * @param now and `alive`: the clock of Postgres, and the processes that are alive
 */
export function decideRecord(
  recorded: readonly RecordedTrouble[],
  observed: readonly ObservedTrouble[],
  report: TroubleReport,
  moment: Moment,
): RecordChanges {
  const { now } = moment
  const { reporter, at = now } = report
  const open = recorded.filter(({ endedAt }) => endedAt === null)
  const holding = observed.filter(({ endedAt }) => endedAt === undefined)
  const begun = observed.flatMap(({ code, subject, details, since, knownAt = at, endedAt }) => {
    const from = endedAt === undefined ? knownAt : since
    const isKnown = recorded.some(
      (one) => isSame(one, { code, subject }) && (one.endedAt === null || isDisproved(one, from)),
    )
    if (isKnown) return []
    const seenAt = endedAt ?? at
    const began = since < seenAt ? since : seenAt
    return [{ code, subject, details, since: began, seenAt, knownAt, endedAt: endedAt ?? null, reporter }]
  })
  const refreshed = holding.flatMap(({ code, subject, details, knownAt = at }) => {
    const known = open.find((one) => isSame(one, { code, subject }) && one.seenAt < at)
    if (known === undefined) return []
    return [{ id: known.id, seenAt: at, knownAt: known.knownAt > knownAt ? known.knownAt : knownAt, details }]
  })
  const ended = open.flatMap((one) => {
    if (holding.some((seen) => isSame(seen, one)) || !isOver(one, report, moment)) return []
    const proved = listProofs(one, report, moment).map((proof) => proof.at ?? now)
    return [{ id: one.id, knownAt: proved.reduce((a, b) => (a > b ? a : b), one.knownAt) }]
  })
  const disproved = holding.filter(({ code, subject, knownAt = at }) =>
    recorded.some((one) => isSame(one, { code, subject }) && isDisproved(one, knownAt)),
  )
  return { begun, refreshed, ended, disproved }
}

/**
 * Whether a trouble has ended since what was learnt at a time. What only one process can know ends with its silence too,
 * which is no proof.
 */
const isDisproved = ({ code, endedAt, knownAt }: RecordedTrouble, at: Date): boolean =>
  endedAt !== null && endedAt >= at && (toTroubleKind(code).isOwn !== true || knownAt > at)

interface Moment {
  readonly now: Date
  readonly alive: ReadonlySet<string>
}

function isOver(trouble: RecordedTrouble, report: TroubleReport, moment: Moment): boolean {
  const { code, subject, seenAt, reporter } = trouble
  const { holdMs = 0, isOwn = false } = toTroubleKind(code)
  const { now } = moment
  if (!report.codes.includes(code) || (report.subject ?? subject) !== subject) return false
  if (seenAt.getTime() > (report.at ?? now).getTime() - holdMs) return false
  return (
    !isOwn ||
    reporter === report.reporter ||
    (report.mayBeLate !== true && now.getTime() - seenAt.getTime() > OWN_TROUBLE_TTL_MS) ||
    listProofs(trouble, report, moment).length > 0
  )
}

const listProofs = (
  trouble: RecordedTrouble,
  { proofs = [] }: TroubleReport,
  { now, alive }: Moment,
): readonly TroubleProof[] =>
  proofs.filter(
    (proof) => (proof.at ?? now) > trouble.knownAt && proves(proof, trouble, alive.has(trouble.reporter)),
  )

/** Another key proves that the refused one was replaced, if no process is left that knows it. */
const proves = (proof: TroubleProof, trouble: RecordedTrouble, isAlive: boolean): boolean =>
  isSame(proof, trouble) ||
  (proof.code === 'key_refused' &&
    trouble.code === 'key_refused' &&
    !isAlive &&
    toHost(proof.subject) === toHost(trouble.subject))
