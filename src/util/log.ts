/**
 * What Fillrate logs: the stable code of each event, in the field `event`, with its meaning. Messages may change between
 * versions; a code does not. `docs/logs.md` is made from this table, and a line without a code is a type error.
 */
export const LOG_EVENTS = {
  run_started: 'A run started.',
  progress: 'How far a command is, every 10 s without a terminal.',
  run_ended: 'A run ended: completed, interrupted, or at its budget.',
  run_failed: 'A run ended as failed, or because the service rejected every key.',
  run_lease_lost: 'A run ended, because another process had taken over its rows.',
  run_interrupted: 'Runs of dead processes were marked interrupted.',
  scheduled_run_started: 'A scheduled run started, or one that was requested on the dashboard.',
  scheduled_run_queued: 'A scheduled run waits for another run of its sources.',
  scheduled_run_late: 'A missed scheduled run starts now.',
  scheduled_run_skipped: 'A scheduled run was skipped.',
  scheduled_run_failed: 'A scheduled or requested run could not be run.',
  schedule_lease_failed: 'The lease of a scheduled run could not be extended.',
  live_sync_started: 'This process runs live sync.',
  live_sync_taken_over: 'Another process took over live sync.',
  live_sync_requeued: 'Changed rows of a dead run were queued again.',
  row_unreadable: 'A changed row cannot be read.',
  condition_began: 'A condition began: its runbook is in docs/operations.md.',
  condition_ended: 'A condition ended, with how long it lasted.',
  call_ended: 'A call to the service was answered (debug).',
  call_failed: 'A call to the service failed (debug).',
  lookup_failed: 'A lookup failed in Fillrate, or its answer was not stored.',
  leases_not_extended: 'Leases of lookups could not be extended.',
  calls_in_doubt: 'Leases expired during calls, which are repeated and may be billed twice.',
  answers_wait: 'Answers or submissions wait for Postgres before they are stored (debug).',
  answer_not_stored: 'A malformed answer could not be kept for inspection.',
  results_quarantined: 'Delivered results match no input of their job.',
  delivery_quarantined: 'A delivery cannot be settled, and is kept.',
  delivery_not_stored: 'A delivery was not stored; the service sends it again.',
  job_not_fetched: 'A job could not be fetched; it is tried again.',
  jobs_fetched: 'Jobs without a delivery were fetched; `gone` and `unpaid` ones brought no results.',
  jobs_expired: 'Jobs passed their deadline; their inputs are requested singly.',
  other_service: 'Another service was used with this database before.',
  leader_elected: 'This process calls the service (debug).',
  leader_lease_lost: 'This process no longer calls the service.',
  leader_lease_not_renewed: 'The lease of the leader could not be renewed.',
  rate_limit_learnt: 'Refused calls showed the rate limit.',
  rate_limit_not_stored: 'The learnt rate limit could not be stored.',
  postgres_waiting: 'A step waits for Postgres (debug).',
  postgres_conflict: 'A step repeats its batch after conflicts with another transaction.',
  postgres_connection_lost: 'An idle connection to Postgres was lost (debug).',
  migration_waiting: 'A migration waits for a lock.',
  task_failed: 'A step of the daemon failed, and is started again.',
  receiver_listening: 'The receiver listens.',
  receiver_shared: 'Another process receives deliveries for this one.',
  page_failed: 'A page of the dashboard could not be made.',
  notification_failed: 'A notification was not accepted; it is sent again.',
  metrics_not_read: 'Postgres did not answer a scrape of /metrics (debug).',
  process_not_reported: 'The process could not report that it is alive (debug).',
  fill_rate_not_measured: 'Fill rates could not be measured (debug).',
  sample_failed: 'A table cannot be sampled (debug).',
  rows_deleted: 'Rows were deleted from the table of a source, or came back.',
  rows_not_compared: 'A locked table was not compared; the next full pass does it.',
  data_expired: 'Data past its retention was deleted (debug).',
  data_erased: 'The data of a person or company was erased, or would be (debug).',
} as const satisfies Readonly<Record<string, string>>

type LogEvent = keyof typeof LOG_EVENTS

/** The fields of a line. No personal data and no secret above debug. */
interface LogFields {
  readonly event: LogEvent
  readonly [field: string]: unknown
}

type WriteLogLine = (fields: LogFields, message: string) => void

/** The part of a pino logger that is used, with a code on every line. */
export interface Log {
  readonly debug: WriteLogLine
  readonly info: WriteLogLine
  readonly warn: WriteLogLine
  readonly error: WriteLogLine
}
