import type { ReportedCondition } from './report/status.ts'
import { formatCount, formatDuration, pluralize, relativeTime, shorten, toVariable } from '../util/text.ts'
import { describeRefusal } from './refusal.ts'

/** Every kind of condition, in the order in which they are listed. */
export const CONDITION_KINDS = [
  'database_away',
  'service_failing',
  'key_refused',
  'out_of_credits',
  'throttled',
  'source_broken',
  'run_failed',
  'late',
  'writes_rejected',
  'jobs_overdue',
  'budget_used',
  'held',
] as const
export type ConditionKind = (typeof CONDITION_KINDS)[number]

/** What the words about a condition name beside its service and source. Stored as JSON; any field may be missing. */
export interface ConditionDetails {
  /**
   * Which of several forms: a service that fails does not respond (`unreachable`) or answers with errors (`failing`); one that
   * throttles has banned the key (`banned`), serves another client with it too (`shared_key`), or grants no call (`limit`); late are
   * a scheduled run (`schedule`), what live sync picks (`live_sync`), or its triggers (`triggers`); of jobs, that results name no input (`unread`); `schema`: that of Fillrate does not fit.
   */
  readonly cause?: string | undefined
  /** In words, on one line: an error message, or what the service answered. */
  readonly reason?: string | undefined
  /** Rows, lookups, jobs or changes that wait because of it. */
  readonly waiting?: number | undefined
  /** Of a budget. */
  readonly limit?: number | undefined
  /** What a budget counts, if not lookups. */
  readonly unit?: 'credits' | undefined
  /** The run that failed. */
  readonly run?: number | undefined
  /** When it ends or is tried again by itself, as an ISO time. */
  readonly until?: string | undefined
  /** A measured duration, in milliseconds. */
  readonly ms?: number | undefined
  /** What ends it, as a sentence: what `fillrate check` says is to be done. */
  readonly mend?: string | undefined
  /** By which Postgres refuses statements, although it answers. */
  readonly sqlstate?: string | undefined
}

/** Something that keeps rows from being enriched, or soon will, while it holds. */
export interface Condition {
  readonly kind: ConditionKind
  /** The service at fault: its name, or its host if it has none. Null: it is about none. */
  readonly service: string | null
  /** The source, or several; of a late schedule, the schedule. Null: it is about none. */
  readonly source: string | null
  readonly since: Date
  readonly details: ConditionDetails
}

/** `error`: it needs a person; `warning`: rows are slower or fewer than they could be. */
export const CONDITION_SEVERITIES = ['error', 'warning'] as const
export type ConditionSeverity = (typeof CONDITION_SEVERITIES)[number]

/** A condition in words: a sentence each, or a few. */
export type ConditionText = Pick<ReportedCondition, 'title' | 'meaning' | 'mend' | 'proof'>

type Described = Pick<Condition, 'service' | 'source' | 'details'>

interface KindOfCondition {
  readonly severity: ConditionSeverity
  /** How long it must last before anyone is notified, in milliseconds: what may end by itself before a person could look. */
  readonly delayMs: number
  /** @param now milliseconds since the epoch */
  readonly describe: (condition: Described, now: number) => ConditionText
}

const withReason = ({ reason }: ConditionDetails): string =>
  reason === undefined ? '' : ` (${shorten(reason)})`
const afterDash = ({ reason }: ConditionDetails): string =>
  reason === undefined ? '' : `: ${shorten(reason)}`
const serviceOf = ({ service }: Described): string => service ?? 'the service'
const sourceOf = ({ source }: Described): string => source ?? 'SOURCE'

/** `2,220 rows wait`. */
const waitingRows = ({ waiting }: ConditionDetails): string =>
  waiting === undefined ? 'rows wait' : `${pluralize(waiting, 'row')} ${waiting === 1 ? 'waits' : 'wait'}`

const when = ({ until }: ConditionDetails, now: number): string =>
  until === undefined || new Date(until).getTime() <= now ? '' : ` ${relativeTime(new Date(until), now)}`

/** A variable of the environment. The only service has no name, and is shown by its host. */
const variableOf = ({ service }: { readonly service: string | null }, name: string): string =>
  toVariable(service !== null && /^[\w-]+$/.test(service) ? service : null, name)

const CALL = '`fillrate check --call email=ADDRESS`'

const KINDS: Readonly<Record<ConditionKind, KindOfCondition>> = {
  database_away: {
    severity: 'error',
    delayMs: 30_000,
    describe: ({ details }) => {
      const refusal = describeRefusal(details.sqlstate)
      const { cause, reason } = details
      return {
        title:
          refusal?.title ??
          (cause === 'schema' && reason ? reason : `Postgres is away${withReason(details)}`),
        meaning: 'Nothing is picked, called or written, and deliveries are not accepted. Nothing is lost.',
        mend: `${details.mend ?? refusal?.action ?? 'Check Postgres and the network in between.'} Fillrate continues by itself.`,
        proof: '`fillrate check`',
      }
    },
  },
  service_failing: {
    severity: 'error',
    delayMs: 60_000,
    describe: ({ details, ...about }, now) => {
      const isUnreachable = details.cause === 'unreachable'
      const name = serviceOf({ details, ...about })
      return {
        title: `${isUnreachable ? `Cannot reach ${name}` : `${name} answers with errors`}${withReason(details)}`,
        meaning: `Calls have stopped, so that it can recover; ${waitingRows(details)}, and will be retried automatically. Nothing is lost.`,
        mend: `Look at the status page of the service${isUnreachable ? ', and try its address from this machine' : ''}. Fillrate tries a single call now and then${when(details, now)}.`,
        proof: CALL,
      }
    },
  },
  key_refused: {
    severity: 'error',
    delayMs: 0,
    describe: ({ details, ...about }) => ({
      title: `${serviceOf({ details, ...about })} rejects the API key${withReason(details)}`,
      meaning: `None of its lookups is answered. Nothing is lost: ${waitingRows(details)}, and will continue with a valid key.`,
      mend: `Check ${variableOf(about, 'API_KEY')} and ${variableOf(about, 'AUTH')}; after a change, restart. The next lookup tries the key again, at most every 15 min.`,
      proof: CALL,
    }),
  },
  out_of_credits: {
    severity: 'error',
    delayMs: 0,
    describe: ({ details, ...about }, now) => ({
      title: `The account at ${serviceOf({ details, ...about })} has no credits left`,
      meaning: `None of its lookups is answered. Nothing is lost: ${waitingRows(details)}, and will continue once there are credits.`,
      mend: `Buy credits, or wait for the next period of the account. Fillrate tries a single call once an hour${when(details, now)}, and one with each run that is started.`,
      proof: CALL,
    }),
  },
  throttled: {
    severity: 'warning',
    delayMs: 60_000,
    describe: (condition, now) => describeThrottled(condition, now),
  },
  source_broken: {
    severity: 'error',
    delayMs: 0,
    describe: (condition) => ({
      title: `${sourceOf(condition)} is left out${afterDash(condition.details)}`,
      meaning:
        'Its table, or the rights to it, do not fit the configuration. The other sources are enriched; its answered rows wait, and are written without another call.',
      mend: `${condition.details.mend ?? `\`fillrate check ${sourceOf(condition)}\` says what to do.`} Fillrate continues by itself within seconds; after a change of the configuration, restart it.`,
      proof: `\`fillrate check ${sourceOf(condition)}\``,
    }),
  },
  run_failed: {
    severity: 'error',
    delayMs: 0,
    describe: ({ source, details }) => ({
      title: `${details.run === undefined ? 'A run' : `Run ${details.run}`} of ${source ?? 'some sources'} failed${withReason(details)}`,
      meaning: 'What it had picked waits for the next run. Nothing is lost.',
      mend: 'Correct the cause, and run again: `fillrate check` finds most of them.',
      proof: '`fillrate check`',
    }),
  },
  late: { severity: 'error', delayMs: 60_000, describe: (condition) => describeLate(condition) },
  writes_rejected: {
    severity: 'warning',
    delayMs: 0,
    describe: (condition) => ({
      title: `The database rejects ${condition.details.waiting === undefined ? 'rows' : pluralize(condition.details.waiting, 'row')} of ${sourceOf(condition)}${withReason(condition.details)}`,
      meaning: 'What was found for them is stored, and is not in the table. Nothing is lost.',
      mend: `Correct the trigger, constraint or right that rejects them, then \`fillrate retry ${sourceOf(condition)}\`: the next run writes them without a call.`,
      proof: `\`fillrate failures --source ${sourceOf(condition)}\``,
    }),
  },
  jobs_overdue: {
    severity: 'warning',
    delayMs: 0,
    describe: ({ service, details: { waiting, cause } }) =>
      cause === 'unread'
        ? {
            title: `The results of ${waiting === undefined ? 'jobs' : pluralize(waiting, 'job')}${service === null ? '' : ` of ${service}`} name no input`,
            meaning: 'They are paid for and kept; their rows wait, and nothing more is requested.',
            mend: 'Correct how the description reads results: the next run reads them again. `fillrate cancel --job ID` gives them up.',
            proof: '`fillrate status`',
          }
        : {
            title: `${waiting === undefined ? 'Jobs' : pluralize(waiting, 'job')}${service === null ? '' : ` of ${service}`} ${waiting === 1 ? 'is' : 'are'} past the deadline without results`,
            meaning:
              'The service accepted the lookups and sent no results. They are looked up again, and may be billed again.',
            mend: 'Run `fillrate check`: it says how their results arrive, and tests the way.',
            proof: '`fillrate check`',
          },
  },
  budget_used: {
    severity: 'warning',
    delayMs: 0,
    describe: ({ details }, now) => ({
      title: `Live sync has spent its budget of the day${details.limit === undefined ? '' : `: ${formatCount(details.limit)} ${details.unit ?? 'lookups'}`}`,
      meaning: `Live sync leaves ${details.waiting === undefined ? 'changes' : pluralize(details.waiting, 'change')} until midnight UTC${details.until === undefined ? '' : ` (${relativeTime(new Date(details.until), now)})`}; scheduled and manual runs look these rows up before.`,
      mend: 'To continue now, raise the budget and restart the daemon, or start a run.',
      proof: '`fillrate status`',
    }),
  },
  held: {
    severity: 'warning',
    delayMs: 0,
    describe: (condition) => ({
      title: `${condition.details.waiting === undefined ? 'Rows' : pluralize(condition.details.waiting, 'row')} of ${sourceOf(condition)} ${condition.details.waiting === 1 ? 'is' : 'are'} gone from the table`,
      meaning:
        'A table that was emptied by mistake, or whose rows row-level security hides, looks the same, so what is stored of them is not erased. They are in no count; rows that come back are restored.',
      mend: `If they were deleted on purpose: \`fillrate forget --deleted ${sourceOf(condition)} --yes\`. If not, bring them back.`,
      proof: `\`fillrate forget --deleted ${sourceOf(condition)} --dry-run\``,
    }),
  },
}

function describeThrottled({ service, details }: Described, now: number): ConditionText {
  const name = service ?? 'the service'
  const proof = '`fillrate status`'
  const waiting = waitingRows(details)
  if (details.cause === 'banned')
    return {
      title: `${name} has banned the API key for a while`,
      meaning: `It answers 403 after too many calls. None of its lookups is answered; ${waiting}.`,
      mend: 'Find the other client of this key and give each its own. Fillrate tries a single call now and then, and continues by itself.',
      proof,
    }
  if (details.cause === 'shared_key')
    return {
      title: `Another client uses the API key of ${name}`,
      meaning:
        details.ms === undefined
          ? 'Fillrate leaves room for it in the rate limit, so that runs take longer.'
          : `No call has been permitted for ${formatDuration(details.ms)}; ${waiting}. They continue by themselves${when(details, now)}.`,
      mend: 'Give each client of the service its own key.',
      proof,
    }
  return {
    title: `Calls to ${name} have been waiting${details.ms === undefined ? '' : ` for ${formatDuration(details.ms)}`}${afterDash(details)}`,
    meaning: `No call is permitted at the moment; ${waiting}.`,
    mend: `They continue by themselves${when(details, now)}. If this happens often, the limit of the key is too low for these sources.`,
    proof,
  }
}

function describeLate(condition: Described): ConditionText {
  const { source, details } = condition
  const proof = '`fillrate status`'
  const duration = details.ms === undefined ? '' : formatDuration(details.ms)
  if (details.cause === 'schedule')
    return {
      title: `The schedule ${source === null ? '' : `"${source}" `}is late${duration && ` by ${duration}`}`,
      meaning: `Its run was due and has not started${afterDash(details)}.`,
      mend: 'Check that a daemon runs (`fillrate start`). `fillrate status` lists what is due.',
      proof,
    }
  if (details.cause === 'triggers')
    return {
      title: `Live sync may miss changes of ${sourceOf(condition)}${afterDash(details)}`,
      meaning:
        'A table that was replaced has no triggers. What they do not record waits for the next run of the source.',
      mend: `Run \`fillrate follow install ${sourceOf(condition)}\`. Where the rows of the new table are blank again, \`fillrate remap ${sourceOf(condition)}\` writes what is stored, without a call.`,
      proof: '`fillrate check`',
    }
  return {
    title: `Live sync${source === null ? '' : ` of ${source}`} is ${duration && `${duration} `}behind`,
    meaning: `${details.waiting === undefined ? 'Changes' : pluralize(details.waiting, 'change')} in the database ${details.waiting === 1 ? 'has' : 'have'} not been picked yet${afterDash(details)}.`,
    mend: 'Check that a daemon runs (`fillrate start`) and what else is open here. A large import takes its time.',
    proof,
  }
}

/**
 * A condition in words, the same on the dashboard, in `status`, in the log and in notifications.
 * @param now milliseconds since the epoch
 * @example describeCondition({ kind: 'key_refused', service: 'acme', source: null, details: {} }, now).title // 'Acme rejects the API key'
 */
export const describeCondition = (
  { kind, ...condition }: Pick<Condition, 'kind' | 'service' | 'source' | 'details'>,
  now: number,
): ConditionText => KINDS[kind].describe(condition, now)

/** Whether a person must act (`error`), or rows are only slower or fewer than they could be. */
export function severityOf({
  kind,
  details: { cause },
}: Pick<Condition, 'kind' | 'details'>): ConditionSeverity {
  if (kind === 'throttled' && cause === 'banned') return 'error'
  return kind === 'late' && cause === 'live_sync' ? 'warning' : KINDS[kind].severity
}

/** How long a condition must last before anyone is notified, in milliseconds. */
export const notifiedAfterMs = ({ kind, details: { cause } }: Pick<Condition, 'kind' | 'details'>): number =>
  kind === 'late' && cause !== 'live_sync' ? 0 : KINDS[kind].delayMs

/** A condition that is over, in words: without the figures of while it lasted. @param ms how long it lasted */
export function describeEnd(
  condition: Pick<Condition, 'kind' | 'service' | 'source' | 'details'>,
  ms: number,
): string {
  const { waiting: _waiting, ms: _ms, until: _until, reason, ...lasting } = condition.details
  const details = lasting.cause === 'limit' ? lasting : { ...lasting, reason }
  return `Over after ${formatDuration(ms)}: ${describeCondition({ ...condition, details }, 0).title}`
}

/** @param now milliseconds since the epoch */
export const toConditionReport = (condition: Condition, now: number): ReportedCondition => ({
  kind: condition.kind,
  service: condition.service,
  source: condition.source,
  severity: severityOf(condition),
  since: condition.since,
  ...describeCondition(condition, now),
})

/** What keeps a process from Postgres, and for how long it has, in milliseconds: another machine's clock may differ. */
export interface DatabaseOutage {
  readonly details: ConditionDetails
  readonly forMs: number
}

/** As a condition. @param now milliseconds since the epoch */
export const toOutageCondition = ({ details, forMs }: DatabaseOutage, now: number): Condition => ({
  kind: 'database_away',
  service: null,
  source: null,
  since: new Date(now - forMs),
  details,
})

/** The schema does not fit this version. */
export const SCHEMA_OUTDATED: ConditionDetails = {
  cause: 'schema',
  reason: 'The schema "fillrate" does not fit this version',
  mend: 'Run `fillrate migrate` with the version that the processes run.',
}
