import { sql, type Kysely } from 'kysely'

/**
 * The whole of Fillrate's state. States are held by CHECK constraints, so that an impossible one can't be stored,
 * and every claim has a partial index with its own predicate and order, so that it costs the same at 3 million rows.
 * The schema is there: the Migrator keeps its own tables in it. `create schema if not exists` would want the right to
 * create one even where an administrator has.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table fillrate.runs (
      id bigint generated always as identity primary key,
      trigger text not null check (trigger in ('manual', 'schedule', 'sync', 'backfill')),
      sources text[] not null,
      options jsonb not null default '{}',
      state text not null check (state in ('running', 'completed', 'interrupted', 'failed')),
      reason text,
      owner text not null,
      lease_token uuid not null,
      leased_until timestamptz not null,
      started_at timestamptz not null default now(),
      picked_at timestamptz,
      finished_at timestamptz,
      totals jsonb,
      check ((state = 'running') = (finished_at is null))
    )`.execute(db)
  await sql`create index runs_running on fillrate.runs (id) where state = 'running'`.execute(db)

  await sql`
    create table fillrate.jobs (
      id uuid primary key,
      job_id text,
      state text not null check (state in
        ('submitting', 'submitted', 'completed', 'failed', 'in_doubt', 'rejected', 'expired')),
      reason text,
      size integer not null check (size between 1 and 100),
      attempt integer not null default 1 check (attempt >= 1),
      run bigint references fillrate.runs (id) on delete set null,
      members bigint[] not null,
      request_ids jsonb,
      not_before timestamptz,
      lease_token uuid,
      leased_until timestamptz,
      created_at timestamptz not null default now(),
      submitted_at timestamptz,
      deadline_at timestamptz not null,
      finished_at timestamptz,
      check (cardinality(members) = size),
      check ((lease_token is null) = (leased_until is null)),
      check (lease_token is null or state = 'submitting'),
      check ((state in ('completed', 'failed', 'rejected', 'expired')) = (finished_at is not null))
    )`.execute(db)
  await sql`create index jobs_by_job_id on fillrate.jobs (job_id) where job_id is not null`.execute(db)
  await sql`create index jobs_submitting on fillrate.jobs (created_at) where state = 'submitting'`.execute(db)
  await sql`create index jobs_waiting on fillrate.jobs (deadline_at) where state in ('submitted', 'in_doubt')`.execute(
    db,
  )
  await sql`create index jobs_by_run on fillrate.jobs (run)`.execute(db)

  await sql`
    create table fillrate.lookups (
      id bigint generated always as identity primary key,
      kind text not null check (kind in ('email', 'linkedin_url', 'name_company', 'domain')),
      key text not null,
      input jsonb not null,
      state text not null check (state in
        ('pending', 'leased', 'submitted', 'found', 'not_found', 'refused', 'failed')),
      reason text,
      attempts integer not null default 0 check (attempts >= 0),
      single boolean not null default false,
      not_before timestamptz,
      lease_token uuid,
      leased_until timestamptz,
      run bigint references fillrate.runs (id) on delete set null,
      job uuid references fillrate.jobs (id) on delete set null,
      record jsonb,
      confidence double precision,
      wanted_at timestamptz not null default now(),
      asked_at timestamptz,
      resolved_at timestamptz,
      due_at timestamptz,
      in_doubt integer not null default 0 check (in_doubt >= 0),
      to_write boolean not null default false,
      unique (kind, key),
      check ((state = 'leased') = (lease_token is not null)),
      check ((lease_token is null) = (leased_until is null)),
      check (state <> 'submitted' or job is not null),
      check (state <> 'found' or record is not null),
      check ((state in ('found', 'not_found', 'refused', 'failed')) = (resolved_at is not null)),
      check (not to_write or state in ('found', 'not_found', 'refused', 'failed'))
    ) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)`.execute(
    db,
  )
  await sql`
    create index lookups_pending_single on fillrate.lookups (run, id)
      where state = 'pending' and (kind <> 'email' or single)`.execute(db)
  await sql`
    create index lookups_pending_bulk on fillrate.lookups (run, id)
      where state = 'pending' and kind = 'email' and not single`.execute(db)
  await sql`create index lookups_leased on fillrate.lookups (leased_until) where state = 'leased'`.execute(db)
  await sql`create index lookups_submitted on fillrate.lookups (job) where state = 'submitted'`.execute(db)
  await sql`create index lookups_to_write on fillrate.lookups (id) where to_write`.execute(db)
  await sql`create index lookups_by_run on fillrate.lookups (run)`.execute(db)

  await sql`
    create table fillrate.rows (
      source text not null,
      key text not null,
      lookup bigint references fillrate.lookups (id) on delete set null,
      tried bigint[] not null default '{}',
      dry boolean not null default false,
      input_hash text,
      state text not null check (state in ('waiting', 'enriched', 'unchanged', 'not_found', 'below_confidence',
        'invalid_input', 'refused', 'suppressed', 'write_rejected', 'failed')),
      reason text,
      run bigint references fillrate.runs (id) on delete set null,
      written jsonb,
      notes jsonb,
      cells_written integer not null default 0,
      cells_kept integer not null default 0,
      cells_conflicts integer not null default 0,
      picked_at timestamptz not null default now(),
      settled_at timestamptz,
      next_at timestamptz,
      primary key (source, key),
      check ((state = 'waiting') = (settled_at is null)),
      check (not dry or state = 'waiting')
    ) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)`.execute(
    db,
  )
  await sql`create index rows_waiting on fillrate.rows (lookup) where state = 'waiting'`.execute(db)
  await sql`create index rows_waiting_by_source on fillrate.rows (source, key) where state = 'waiting'`.execute(
    db,
  )
  await sql`
    create index rows_sent_back on fillrate.rows (source, key) where state = 'waiting' and lookup is null`.execute(
    db,
  )
  await sql`create index rows_by_run on fillrate.rows (run, state)`.execute(db)
  await sql`create index rows_by_lookup on fillrate.rows (lookup)`.execute(db)
  await sql`create index rows_due on fillrate.rows (source, next_at) where next_at is not null`.execute(db)

  await sql`
    create table fillrate.deliveries (
      event_id text primary key,
      job uuid,
      job_id text,
      state text not null check (state in ('received', 'settled', 'orphaned', 'quarantined')),
      reason text,
      received_at timestamptz not null default now(),
      body text,
      raw bytea,
      settled_at timestamptz,
      check (body is not null or raw is not null)
    )`.execute(db)
  await sql`create index deliveries_received on fillrate.deliveries (received_at) where state = 'received'`.execute(
    db,
  )
  await sql`create index deliveries_orphaned on fillrate.deliveries (job_id) where state = 'orphaned'`.execute(
    db,
  )
  await sql`create index deliveries_by_job on fillrate.deliveries (job)`.execute(db)

  await sql`
    create table fillrate.changes (
      id bigint generated always as identity primary key,
      run bigint references fillrate.runs (id) on delete set null,
      source text not null,
      key text not null,
      lookup bigint references fillrate.lookups (id) on delete set null,
      before jsonb not null,
      after jsonb not null,
      written_before jsonb,
      written_at timestamptz not null default now(),
      undone_by bigint references fillrate.changes (id) on delete set null
    )`.execute(db)
  await sql`create index changes_by_row on fillrate.changes (source, key)`.execute(db)
  await sql`create index changes_by_run on fillrate.changes (run, id)`.execute(db)
  await sql`create index changes_undoing on fillrate.changes (undone_by) where undone_by is not null`.execute(
    db,
  )

  await sql`
    create table fillrate.suppressions (
      kind text not null check (kind in ('email', 'linkedin_url', 'name_company', 'domain')),
      hash text not null,
      created_at timestamptz not null default now(),
      primary key (kind, hash)
    )`.execute(db)

  await sql`
    create table fillrate.callers (
      scope text primary key,
      lease_token uuid not null,
      leased_until timestamptz not null,
      owner text not null
    )`.execute(db)

  await sql`
    create table fillrate.rate_limits (
      scope text primary key,
      "limit" integer not null check ("limit" >= 0),
      window_ms integer check (window_ms > 0),
      observed_at timestamptz not null
    )`.execute(db)

  // How far a source with `changedAt` has been read, and with which mapping: a changed mapping wants a whole pass.
  await sql`
    create table fillrate.passes (
      source text primary key,
      mapping_hash text not null,
      changed_until timestamptz not null
    )`.execute(db)
}
