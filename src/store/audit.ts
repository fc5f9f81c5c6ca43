import { sql } from 'kysely'
import type { Schema } from './open.ts'
import { NOW } from './sql.ts'
import type { Connection } from './transaction.ts'

/** What the audit list records. */
type AuditAction =
  | 'run'
  | 'undo'
  | 'retry'
  | 'remap'
  | 'forget'
  | 'cancel'
  | 'pause'
  | 'resume'
  | 'job cancel'
  | 'follow install'
  | 'follow remove'
  | 'source rename'
  | 'try now'

/** Who acts, and where. */
export interface Actor {
  /** The name of a dashboard token, or `user@host` on the command line. */
  readonly name: string
  readonly origin: Schema['fillrate.audit_events']['origin']
}

export type AuditOutcome = NonNullable<Schema['fillrate.audit_events']['outcome']>

export interface AuditEvent {
  readonly id: number
  readonly at: Date
  readonly actor: string
  readonly origin: Actor['origin']
  readonly action: AuditAction
  /** What was requested, without personal data that the action itself erases. */
  readonly parameters: Readonly<Record<string, unknown>>
  /** Null: under way, or its process died. */
  readonly outcome: AuditOutcome | null
  readonly detail: string | null
  /** The run that it is about, or that it started. */
  readonly run: number | null
  readonly finished_at: Date | null
}

export interface NewAuditEvent {
  readonly actor: Actor
  readonly action: AuditAction
  readonly parameters: Readonly<Record<string, unknown>>
  readonly run?: number | null
  /** The form that requested the action: it acts once. */
  readonly requestId?: string | null
}

/** Records the begin of an action. @returns its id; null if the same form has requested it before */
export async function insertAuditEvent(db: Connection, event: NewAuditEvent): Promise<number | null> {
  const { actor, action, parameters, run = null, requestId = null } = event
  const { rows } = await sql<{ id: number }>`
    insert into fillrate.audit_events (actor, origin, action, parameters, run_id, request_id)
    values (${actor.name}, ${actor.origin}, ${action}, ${JSON.stringify(parameters)}::jsonb, ${run},
            ${requestId}::uuid)
    on conflict (request_id) do nothing returning id`.execute(db)
  return rows[0]?.id ?? null
}

/** Records how an action ended. */
export async function finishAuditEvent(
  db: Connection,
  id: number,
  end: { readonly outcome: AuditOutcome; readonly detail: string | null; readonly run?: number | null },
): Promise<void> {
  const { outcome, detail, run = null } = end
  const set = { outcome, detail, finished_at: NOW, ...(run !== null && { run_id: run }) }
  await db.updateTable('fillrate.audit_events').set(set).where('id', '=', id).execute()
}

/** The latest events, newest first. */
export async function listAuditEvents(db: Connection, limit: number): Promise<AuditEvent[]> {
  const { rows } = await sql<AuditEvent>`
    select id, at, actor, origin, action, parameters, outcome, detail, run_id as run, finished_at
      from fillrate.audit_events order by id desc limit ${limit}`.execute(db)
  return rows
}
