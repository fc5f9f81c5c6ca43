import { describeRefusal } from './refusal.ts'
import { toSentenceCase, formatCount, formatDuration, pluralize, relativeTime } from '../util/format.ts'
import { shorten } from '../util/text.ts'

/** The values that the texts of a trouble name, beside its code and subject. Stored as JSON; any field may be missing. */
export interface TroubleDetails {
  /** The cause in words, on one line: an error message, or what the service answered. */
  readonly reason?: string | undefined
  /** Rows, lookups, jobs or changes that wait because of it. */
  readonly waiting?: number | undefined
  /** Lookups of a budget, or calls of a rate limit. */
  readonly limit?: number | undefined
  /** What a budget counts, if not lookups. */
  readonly unit?: 'credits' | undefined
  /** The run, and its sources. */
  readonly run?: number | undefined
  readonly sources?: readonly string[] | undefined
  /** The process that knows it: host name and process id. */
  readonly process?: string | undefined
  /** When it ends or is tried again by itself, as an ISO time. */
  readonly until?: string | undefined
  /** A measured duration, in milliseconds. */
  readonly ms?: number | undefined
  /** What ends it, as a sentence: what `fillrate check` says is to be done. */
  readonly mend?: string | undefined
  /** By which Postgres refuses statements, although it answers. */
  readonly sqlstate?: string | undefined
}

/** A process that has not reported its own troubles for this long is gone, and they with it. Milliseconds. */
export const OWN_TROUBLE_TTL_MS = 60_000

/** What comes and goes within seconds is one trouble; its end is seen within ten. Milliseconds. */
const HOLD_MS = 6_000

export type TroubleSeverity = 'error' | 'warning'

/** Something that keeps rows from being enriched, from its begin to its end. */
export interface Trouble {
  readonly code: TroubleCode
  /** A scope (host and key), a source, a schedule or a process; empty if there is only one. */
  readonly subject: string
  readonly severity: TroubleSeverity
  readonly since: Date
  readonly endedAt: Date | null
  readonly details: TroubleDetails
}

/** A trouble in words: one sentence each, or a few. */
export interface TroubleText {
  readonly title: string
  /** What it means for the rows. */
  readonly meaning: string
  /** What to do about it. */
  readonly action: string
}

interface TroubleKind {
  readonly severity: TroubleSeverity
  /** Only the process that reports it can know it: it ends when that process says so, or is gone. */
  readonly isOwn?: boolean
  /** Recorded by the part of the program that meets it, and open until that part records its end: no other facts show it. */
  readonly isRecordedOnly?: boolean
  /** It ends when it was not seen for this long, so that what comes and goes is one trouble. Milliseconds. Default: 0. */
  readonly holdMs?: number
  /** @param now milliseconds since the epoch */
  readonly describe: (trouble: Pick<Trouble, 'subject' | 'details'>, now: number) => TroubleText
}

/** The host of a scope such as `api.example.com 62af8704`. */
export const toHost = (subject: string): string => subject.split(' ')[0] || 'the service'
const toKeyId = (subject: string): string => subject.split(' ')[1] ?? ''
const withReason = ({ reason }: TroubleDetails): string =>
  reason === undefined ? '' : ` (${shorten(reason)})`
const afterDash = ({ reason }: TroubleDetails): string => (reason === undefined ? '' : `: ${shorten(reason)}`)
const keyName = (subject: string): string =>
  toKeyId(subject) === '' ? 'the API key' : `the API key ${toKeyId(subject)}`

/** `2,220 rows are waiting`. */
function waitingRows({ waiting }: TroubleDetails): string {
  if (waiting === undefined) return 'rows are waiting'
  return `${pluralize(waiting, 'row')} ${waiting === 1 ? 'is' : 'are'} waiting`
}

const when = ({ until }: TroubleDetails, now: number): string =>
  until === undefined || new Date(until).getTime() <= now ? '' : ` ${relativeTime(new Date(until), now)}`

/** Every trouble by its code. docs/operations.md has a heading for each. */
export const TROUBLES = {
  service_down: {
    severity: 'error',
    describe: ({ subject, details }, now) => ({
      title: `Cannot reach ${toHost(subject)}${withReason(details)}`,
      meaning: `${toSentenceCase(waitingRows(details))} and will be retried automatically. Nothing is lost.`,
      action: `Look at the status page of the service, and try its address from this machine. Fillrate tries again by itself${when(details, now)}.`,
    }),
  },
  circuit_open: {
    severity: 'error',
    describe: ({ subject, details }, now) => ({
      title: `${toHost(subject)} answers with errors${withReason(details)}`,
      meaning: `${toSentenceCase(waitingRows(details))} and will be retried automatically. Calls have stopped, so that the service can recover.`,
      action: `Look at the status page of the service. Fillrate sends a single call to find out whether it has recovered${when(details, now)}.`,
    }),
  },
  out_of_credits: {
    severity: 'error',
    describe: ({ subject, details }, now) => ({
      title: `The account at ${toHost(subject)} has no credits left`,
      meaning: `No lookup is answered. Nothing is lost: ${waitingRows(details)} and will continue once there are credits.`,
      action: `Buy credits, or wait for the next period of the account. Fillrate sends a single call to find out whether there are any again${when(details, now)}, and one with each run that is started.`,
    }),
  },
  key_refused: {
    severity: 'error',
    isOwn: true,
    describe: ({ subject, details }) => ({
      title: `${toHost(subject)} rejects ${keyName(subject)}${withReason(details)}`,
      meaning: `No lookup is answered. Nothing is lost: ${waitingRows(details)} and will continue with a valid key.`,
      action: `Check FILLRATE_API_KEY and FILLRATE_AUTH (of several services those with its name: FILLRATE_NAME_API_KEY); after a change, restart. The next lookup tries the key again, at most every 15 min; to prove it now: \`fillrate check --call email=…\`.`,
    }),
  },
  banned: {
    severity: 'error',
    // For a change of the leader.
    holdMs: 3_000,
    describe: ({ subject, details }) => ({
      title: `${toHost(subject)} has banned ${keyName(subject)} for a while`,
      meaning: `The service answers 403 after too many calls. No lookup is answered; ${waitingRows(details)}.`,
      action:
        'Find the other client of this key and give each its own. Fillrate sends a probe now and then, and continues by itself.',
    }),
  },
  shared_key: {
    severity: 'warning',
    // For a change of the leader: the limiter has joined what comes and goes.
    holdMs: 3_000,
    describe: ({ subject, details }, now) => ({
      title: `Another client uses ${keyName(subject)} of ${toHost(subject)}`,
      meaning:
        details.ms === undefined
          ? 'Fillrate leaves room for it in the rate limit, so that runs take longer.'
          : `No call has been permitted for ${formatDuration(details.ms)}; ${waitingRows(details)}. They continue by themselves${when(details, now)}.`,
      action: 'Give each client of the service its own key.',
    }),
  },
  calls_waiting: {
    severity: 'warning',
    holdMs: HOLD_MS,
    describe: ({ subject, details }, now) => ({
      title: `Calls to ${toHost(subject)} have been waiting${details.ms === undefined ? '' : ` for ${formatDuration(details.ms)}`}${afterDash(details)}`,
      meaning: `No call is permitted at the moment; ${waitingRows(details)}.`,
      action: `They continue by themselves${when(details, now)}. If this happens often, the limit of the key is too low for these sources.`,
    }),
  },
  run_failed: {
    severity: 'error',
    describe: ({ subject, details }) => ({
      title: `${details.run === undefined ? 'A run' : `Run ${details.run}`} of ${subject || 'some sources'} failed${withReason(details)}`,
      meaning: 'What it had picked waits for the next run. Nothing is lost.',
      action: 'Correct the cause, and run again: `fillrate check` finds most of them.',
    }),
  },
  live_sync_budget_spent: {
    severity: 'warning',
    describe: ({ subject, details }, now) => ({
      title: `Live sync has spent its budget of the day${subject === '' ? '' : ` for ${subject}`}${details.limit === undefined ? '' : `: ${formatCount(details.limit)} ${details.unit ?? 'lookups'}`}`,
      meaning: `Live sync leaves ${details.waiting === undefined ? 'changes' : pluralize(details.waiting, 'change')} until midnight UTC${details.until === undefined ? '' : ` (${relativeTime(new Date(details.until), now)})`}; scheduled and manual runs look these rows up before.`,
      action: 'To continue now, raise the budget and send SIGHUP, or start a run.',
    }),
  },
  live_sync_behind: {
    severity: 'warning',
    holdMs: HOLD_MS,
    describe: ({ subject, details }) => ({
      title: `Live sync${subject === '' ? '' : ` of ${subject}`} is ${details.ms === undefined ? '' : `${formatDuration(details.ms)} `}behind`,
      meaning: `${details.waiting === undefined ? 'Changes' : pluralize(details.waiting, 'change')} in the database ${details.waiting === 1 ? 'has' : 'have'} not been picked yet${afterDash(details)}.`,
      action:
        'Check that a daemon runs (`fillrate start`) and what else is open here. A large import takes its time.',
    }),
  },
  triggers_outdated: {
    severity: 'error',
    isOwn: true,
    describe: ({ subject, details }) => ({
      title: `Live sync may miss changes of ${subject || 'a source'}${afterDash(details)}`,
      meaning:
        'A table that was replaced has no triggers. What they do not record waits for the next run of the source.',
      action: `Run \`fillrate follow install ${subject || 'SOURCE'}\`. Where the rows of the new table are blank again, \`fillrate remap ${subject || 'SOURCE'}\` writes what is stored, without a call.`,
    }),
  },
  database_away: {
    severity: 'error',
    isOwn: true,
    describe: ({ details }) => {
      const refusal = describeRefusal(details.sqlstate)
      return {
        title: refusal?.title ?? `Postgres is away${withReason(details)}`,
        meaning: 'Nothing is picked, called or written, and deliveries are not accepted. Nothing is lost.',
        action: `${refusal?.action ?? 'Check Postgres and the network in between.'} Fillrate continues by itself.`,
      }
    },
  },
  reload_refused: {
    severity: 'error',
    isOwn: true,
    describe: ({ details }) => ({
      title: `The reloaded configuration was refused${details.process === undefined ? '' : ` by ${details.process}`}`,
      meaning: `The process continues with its former configuration.${details.reason === undefined ? '' : ` What is wrong: ${details.reason.replace(/\.$/, '')}.`}`,
      action: 'Correct the configuration, try it with `fillrate check`, and send SIGHUP again.',
    }),
  },
  schema_outdated: {
    severity: 'error',
    isOwn: true,
    describe: ({ details }) => ({
      title: `The schema "fillrate" does not fit this version${withReason(details)}`,
      meaning: 'The process waits: nothing is picked, called or written.',
      action: 'Run `fillrate migrate` with the version that the processes run.',
    }),
  },
  jobs_overdue: {
    severity: 'warning',
    describe: ({ details }) => ({
      title: `${details.waiting === undefined ? 'Jobs are' : `${pluralize(details.waiting, 'job')} ${details.waiting === 1 ? 'is' : 'are'}`} past the deadline without results`,
      meaning:
        'The service accepted the lookups and sent no results. They are looked up again, and may be billed again.',
      action: 'Run `fillrate check`: it says how their results arrive, and tests the way.',
    }),
  },
  schedule_late: {
    severity: 'error',
    describe: ({ subject, details }) => ({
      title: `The schedule ${subject === '' ? '' : `"${subject}" `}is late${details.ms === undefined ? '' : ` by ${formatDuration(details.ms)}`}`,
      meaning: `Its run was due and has not started${afterDash(details)}.`,
      action: 'Check that a daemon runs (`fillrate start`). `fillrate status` lists what is due.',
    }),
  },
  writes_rejected: {
    severity: 'warning',
    // A row that is retried waits for a moment before it is written or rejected again.
    holdMs: 5_000,
    describe: ({ subject, details }) => ({
      title: `The database rejects ${details.waiting === undefined ? 'rows' : pluralize(details.waiting, 'row')} of ${subject || 'a source'}${withReason(details)}`,
      meaning: 'What was found for them is stored, and is not in the table. Nothing is lost.',
      action: `Correct the trigger, constraint or right that rejects them: \`fillrate failures ${subject || 'SOURCE'}\` lists the reasons. Then \`fillrate retry ${subject || 'SOURCE'}\`: the next run writes them without a call.`,
    }),
  },
  source_broken: {
    severity: 'error',
    isRecordedOnly: true,
    describe: ({ subject, details }) => ({
      title: `${subject || 'A source'} is left out${afterDash(details)}`,
      meaning:
        'Its table, or the rights to it, do not fit the configuration. The other sources are enriched; its answered rows wait, and are written without another call.',
      action: `${details.mend ?? `\`fillrate check ${subject || 'SOURCE'}\` says what to do.`} Fillrate continues by itself within seconds; after a change of the configuration, send SIGHUP.`,
    }),
  },
  erase_held: {
    severity: 'warning',
    isRecordedOnly: true,
    describe: ({ subject, details }) => ({
      title: `${details.waiting === undefined ? 'Rows' : pluralize(details.waiting, 'row')} of ${subject || 'a source'} ${details.waiting === 1 ? 'is' : 'are'} gone from the table`,
      meaning:
        'A table that was emptied by mistake, or whose rows row-level security hides, looks the same, so what is stored of them is not erased. They are in no count; rows that come back are restored.',
      action: `If they were deleted on purpose: \`fillrate forget --deleted ${subject || 'SOURCE'}\`. If not, bring them back.`,
    }),
  },
  notification_failed: {
    severity: 'warning',
    isRecordedOnly: true,
    describe: ({ subject, details }) => ({
      title: `Notifications${subject === '' ? '' : ` to ${subject}`} cannot be delivered${withReason(details)}`,
      meaning: 'They are kept and sent again. Until then this page is the only place that shows troubles.',
      action: 'Check the address in `notify` or FILLRATE_NOTIFY_URL.',
    }),
  },
} as const satisfies Readonly<Record<string, TroubleKind>>

export type TroubleCode = keyof typeof TROUBLES

export const TROUBLE_CODES = Object.keys(TROUBLES) as readonly TroubleCode[]

export const toTroubleKind = (code: TroubleCode): TroubleKind => TROUBLES[code]

/**
 * A trouble in words, the same on the dashboard, in `status`, in the log and in notifications.
 * @param now milliseconds since the epoch
 */
export function describeTrouble(
  trouble: Pick<Trouble, 'code' | 'subject' | 'details'>,
  now: number,
): TroubleText {
  return TROUBLES[trouble.code].describe(trouble, now)
}

/** How long a trouble has lasted, or lasted, in milliseconds. */
export const troubleDurationMs = (
  { since, endedAt }: Pick<Trouble, 'since' | 'endedAt'>,
  now: number,
): number => Math.max(0, (endedAt?.getTime() ?? now) - since.getTime())
