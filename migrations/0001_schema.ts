import { sql, type Kysely } from 'kysely'

/**
 * The schema `fillrate`. States are held by CHECK constraints, so that an impossible one cannot be stored. Every claim
 * has a partial index with its own predicate and order, so that it costs the same at 3 million rows.
 *
 * `lookups`, `rows` and `changes`, of which there are millions, refer to other tables without a foreign key: Postgres
 * would read and lock the referenced row for each inserted row, which was half of the cost of a row. A reference never
 * points at an identifier that did not exist, because identifiers come from the same statement or the one before. What
 * `on delete set null` would do is done by one trigger per statement. `changes.lookup_id`, `changes.undone_by_change_id`,
 * `lookups.run_id` and `lookups.job_key` may point at a deleted row.
 *
 * Their columns are in the order in which they cost least. First what is always there and has a fixed width: Postgres finds such a
 * column without reading those before it, and 8-byte ones side by side need no padding. Last what an answer or a write changes: of a new
 * version on the same page, the WAL has only what follows the first byte that differs.
 *
 * Texts that an index has are compared by their bytes (`C`): an upgrade of the operating system changes the order of other
 * collations, and an index in the old order finds nothing and lets a lookup be stored, and paid, twice. It is also the fastest.
 *
 * The schema itself exists already, because the Migrator keeps its tables in it. `create schema if not exists` would
 * require the right to create one even where an administrator has created it.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createRuns(db)
  await createLookups(db)
  await createRows(db)
  await createJobs(db)
  await createSpend(db)
  await createCoordination(db)
  await createLiveSync(db)
  await createMonitoring(db)
  await createCascades(db)
  await createAudit(db)
  await createReplicaIdentities(db)
}

async function createRuns(db: Kysely<unknown>): Promise<void> {
  // One pass over one or more sources. `scopes`: by the number of each of its services the host and the identifier of the API key;
  // empty: it makes no calls. Only the leader of a scope serves the run's lookups of that service. `gathering`: services to which rows
  // may still go on from one before, so that they fill their jobs. `failed_for`: the kind of condition for which it failed, and
  // `failed_scope` of which service and key. `bound`: what it may spend (`store/budgets.ts:RunBound`); null: anything.
  // `budget_name`: it is shared by the runs of this name: those started for the same scheduled run, because the processes of earlier
  // ones died, and those of live sync in one day. `version`: that of Fillrate that made the run.
  await sql`
    create table fillrate.runs (
      id bigint generated always as identity primary key,
      scopes jsonb not null default '{}',
      gathering smallint[] not null default '{}',
      trigger text not null check (trigger in ('manual', 'schedule', 'follow', 'backfill')),
      sources text[] not null,
      options jsonb not null default '{}',
      state text not null check (state in ('running', 'completed', 'interrupted', 'failed')),
      reason text,
      failed_for text,
      failed_scope text,
      budget_name text collate "C",
      bound jsonb,
      owner text not null,
      lease_token uuid not null,
      leased_until timestamptz not null,
      started_at timestamptz not null default now(),
      picking_finished_at timestamptz,
      finished_at timestamptz,
      cancelled_at timestamptz,
      cancelled_by text,
      totals jsonb,
      version text,
      check ((state = 'running') = (finished_at is null)),
      check ((cancelled_at is null) = (cancelled_by is null))
    )`.execute(db)
  await sql`create index runs_running on fillrate.runs (id) where state = 'running'`.execute(db)
  // Those that have counted how full their sources are: of a source that is dear to count, few.
  await sql`create index runs_counted on fillrate.runs (id) where totals ? 'fill_rates'`.execute(db)

  await sql`create index runs_of_budget on fillrate.runs (budget_name, id) where budget_name is not null`.execute(
    db,
  )

  // One firing of a schedule, or a run or undo that was requested on the dashboard: then `request` says what to do, and
  // `schedule` is its own.
  await sql`
    create table fillrate.scheduled_runs (
      schedule text collate "C" not null,
      at timestamptz not null,
      sources text[] not null,
      state text not null check (state in ('waiting', 'running', 'done', 'skipped')),
      reason text,
      attempts integer not null default 0 check (attempts >= 0),
      run_id bigint references fillrate.runs (id) on delete set null,
      owner text,
      lease_token uuid,
      leased_until timestamptz,
      finished_at timestamptz,
      request jsonb,
      primary key (schedule, at),
      check ((state = 'running') = (lease_token is not null)),
      check ((lease_token is null) = (leased_until is null)),
      check ((state in ('done', 'skipped')) = (finished_at is not null))
    )`.execute(db)
  await sql`create index scheduled_runs_open on fillrate.scheduled_runs (at) where state in ('waiting', 'running')`.execute(
    db,
  )
  await sql`create unique index scheduled_runs_requested on fillrate.scheduled_runs (schedule) where request is not null`.execute(
    db,
  )
  await sql`create index scheduled_runs_by_run on fillrate.scheduled_runs (run_id) where run_id is not null`.execute(
    db,
  )
}

async function createLookups(db: Kysely<unknown>): Promise<void> {
  // The services that this database has met. A lookup belongs to one of them: what a test service invented is no answer
  // of the live one. Two bytes in place of the host in three million lookups. `name`: what the configuration calls it, if it has
  // several.
  await sql`
    create table fillrate.services (
      id smallint primary key check (id >= 0),
      host text collate "C" not null unique,
      name text,
      first_seen_at timestamptz not null default now(),
      try_at timestamptz
    )`.execute(db)

  // One distinct question to a service, with its answer. Many rows can share one lookup. `sync_only`: not to be part of
  // a job again. `unconfirmed_calls` counts requests whose answer was lost: each may have been billed. `refresh_at`: when
  // the answer is out of date. `source`: the one for whose rows `run_id` requests it, and to which its cost is counted.
  // `record` is json, as it came: jsonb costs three times as much to read and to write, sorts its fields and rewrites its numbers.
  // `malformed`: the latest response that was no record, with its `status`, the start of its `body` and when it came, for inspection.
  // `job_key`: the job of a submitted lookup, and the latest one of others.
  // `leased_until`, `most`: until when it is leased under `lease_token`, and the most credits that it may cost; null: one.
  // A lookup changes its state once or more often. Pages are filled to a fifth, which leaves room for the records: each new version stays
  // on its page, and the answer to a job writes no index (a HOT update). Postgres computes `is_pending` and `is_leased`, by which
  // lookups are found that are to be requested or are leased: no statement can forget to list one.
  await sql`
    create table fillrate.lookups (
      id bigint generated always as identity primary key,
      enqueued_at timestamptz not null default now(),
      run_id bigint,
      unconfirmed_calls integer not null default 0 check (unconfirmed_calls >= 0),
      service_id smallint not null default 0,
      sync_only boolean not null default false,
      kind text collate "C" not null check (kind in ('email', 'linkedin_url', 'name_company', 'domain')),
      key text collate "C" not null,
      input jsonb not null,
      source text,
      job_key uuid,
      attempts integer not null default 0 check (attempts >= 0),
      state text collate "C" not null,
      reason text,
      not_before timestamptz,
      lease_token uuid,
      leased_until timestamptz,
      most numeric,
      requested_at timestamptz,
      resolved_at timestamptz,
      refresh_at timestamptz,
      confidence double precision,
      record json,
      malformed jsonb,
      is_pending boolean generated always as (case when state = 'pending' then true end) stored,
      is_leased boolean generated always as (case when state = 'leased' then true end) stored,
      constraint lookups_state check (case state
        when 'pending' then lease_token is null and resolved_at is null
        when 'found' then lease_token is null and resolved_at is not null and record is not null
        when 'leased' then lease_token is not null and leased_until is not null and resolved_at is null
        when 'submitted' then lease_token is null and resolved_at is null and job_key is not null
        when 'not_found' then lease_token is null and resolved_at is not null
        when 'rejected' then lease_token is null and resolved_at is not null
        when 'failed' then lease_token is null and resolved_at is not null
        else false end)
    ) with (fillfactor = 19, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)`.execute(
    db,
  )
  // The key first: it decides most comparisons alone, and comparing is two fifths of what an entry costs.
  await sql`create unique index lookups_unique on fillrate.lookups (key, kind, service_id)`.execute(db)

  // What a run may request, and what is leased for it: null for all others, so that the answer to a job writes no index. A claim goes on
  // behind the last one that the leader has leased, and not over what it has left there, which a long snapshot keeps.
  await sql`
    create index lookups_pending on fillrate.lookups (run_id, service_id, kind, sync_only desc, id) where is_pending`.execute(
    db,
  )
  await sql`create index lookups_leased on fillrate.lookups (run_id) where is_leased`.execute(db)

  // Lookups that are answered and not yet written back: an outbox. Inserted with the answer, never updated, deleted with the write; a flag
  // on the lookup would cost two versions of the whole lookup. A lookup may be in it several times: whatever lets a row wait for an answered
  // lookup inserts it, and never has to find out whether it is there. Without an index: it is small, and read whole.
  await sql`
    create table fillrate.answered_lookups (
      lookup_id bigint not null
    ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500)`.execute(db)

  // Tombstones of erased people and companies. The hash alone, which covers the kind, is looked up once for each record
  // that is stored.
  await sql`
    create table fillrate.suppressions (
      kind text collate "C" not null check (kind in ('email', 'linkedin_url', 'name_company', 'domain')),
      hash text collate "C" not null,
      created_at timestamptz not null default now(),
      primary key (kind, hash)
    )`.execute(db)
  await sql`create index suppressions_by_hash on fillrate.suppressions (hash)`.execute(db)
}

async function createRows(db: Kysely<unknown>): Promise<void> {
  // One row of a source, in exactly one state. `missed_lookup_ids`: the lookups that were requested before `lookup_id` in the same pass: of a
  // cascade, and of the services before this one; null: none. While `remap` writes the record of one of several: all of them, in their
  // order. `only_blanks`: one of those services has found a record, and this one
  // fills only what that left blank.
  // `service_id`: the service that finished the row, so that picking sees without a join that it was another one.
  // `last_written`: the latest value that Fillrate wrote to each column for the inputs of `input_hash`. `earlier_writes`: what it
  // wrote for earlier inputs, as pairs of their hash and the value, with a third element where it is a user's since; a column is in
  // one of the two. `own_writes`: what its writes left in columns that inputs read, as pairs with what the user had given: the inputs
  // are those of the user. `due_at`: when
  // the row may be picked again. `deleted_at`: when its table was seen not to have the row any more; it is in no count then, never
  // waits, and is restored if it comes back. Until then `is_kept` keeps it from being erased, and `may_be_hidden` says that row-level
  // security may only hide it.
  // No index reads a column that changes when a row is finished, and pages are filled to three tenths, which leaves room for what is
  // stored then: the new version stays on its page and writes no index (a HOT update). So nothing here finds waiting rows or those
  // that are due: `row_counts` says where to look for the ones, and a pass finds the others. What is rare has a column
  // that is null for all other rows: `is_requeued`, a waiting row to be picked again by its run, and `failure`, the state of one that was not enriched. Statements set
  // `failure` (`store/terms.ts:failureSql`): a generated column would list the states, and a later version could add none.
  await sql`
    create table fillrate.rows (
      lookup_id bigint,
      run_id bigint,
      input_hash bigint,
      picked_at timestamptz not null default now(),
      service_id smallint not null default 0,
      only_blanks boolean not null default false,
      source text collate "C" not null,
      key text collate "C" not null,
      state text collate "C" not null,
      deleted_at timestamptz,
      is_kept boolean,
      may_be_hidden boolean,
      due_at timestamptz,
      settled_at timestamptz,
      reason text,
      cells_written smallint not null default 0,
      cells_protected smallint not null default 0,
      cells_skipped smallint not null default 0,
      missed_lookup_ids bigint[],
      notes jsonb,
      own_writes jsonb,
      earlier_writes jsonb,
      last_written jsonb,
      is_requeued boolean generated always as (case when state = 'waiting' and lookup_id is null then true end) stored,
      failure text collate "C",
      primary key (source, key),
      constraint rows_failure check (failure is null or (failure = state and deleted_at is null)),
      constraint rows_state check (case
        when state = 'waiting' then settled_at is null and deleted_at is null
        when settled_at is null then false
        else state in ('enriched', 'unchanged', 'not_found', 'below_confidence', 'invalid_input', 'rejected', 'suppressed', 'write_rejected', 'failed')
        end)
    ) with (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)`.execute(
    db,
  )
  await sql`create index rows_by_run on fillrate.rows (run_id, key)`.execute(db)
  await sql`create index rows_by_lookup on fillrate.rows (lookup_id)`.execute(db)
  await sql`create index rows_requeued on fillrate.rows (source, key) where is_requeued`.execute(db)
  await sql`create index rows_own_writes on fillrate.rows (source, key) where own_writes is not null`.execute(
    db,
  )
  await sql`create index rows_not_enriched on fillrate.rows (failure, source, key) where failure is not null`.execute(
    db,
  )
  await sql`create index rows_write_rejected on fillrate.rows (source, run_id) where failure = 'write_rejected'`.execute(
    db,
  )
  await sql`
    create index rows_deleted on fillrate.rows (source, key) include (is_kept, may_be_hidden, deleted_at)
      where deleted_at is not null`.execute(db)

  // Lookups that a cascade has passed, to find out whether any row still needs one.
  await sql`
    create index rows_by_missed_lookup on fillrate.rows using gin (missed_lookup_ids)
      where missed_lookup_ids is not null`.execute(db)

  // How many rows of each run are in each state: the sum of `rows`. Every statement that changes states appends what it has changed, in
  // its own transaction, so that the sum is exact after any crash. Updating one row for each state
  // would make concurrent writers wait for one another, and deadlock; counting four million rows takes seconds. Recovery
  // folds the rows of many statements into one, and forgets the run of rows that are finished when the run is over.
  await sql`
    create table fillrate.row_counts (
      source text collate "C" not null,
      state text collate "C" not null,
      run_id bigint,
      rows bigint not null
    ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`.execute(db)
  await sql`
    create function fillrate.count_rows() returns trigger language plpgsql as $$
    begin
      if tg_op = 'INSERT' then
        insert into fillrate.row_counts
        select source, state, run_id as run, count(*) from added
         where deleted_at is null group by source, state, run;
      elsif tg_op = 'DELETE' then
        insert into fillrate.row_counts
        select source, state, run_id as run, -count(*) from removed
         where deleted_at is null group by source, state, run;
      elsif tg_op = 'UPDATE' then
        insert into fillrate.row_counts
        select source, state, run, sum(n)
          from (select source, state, run_id as run, 1 as n from added where deleted_at is null
                union all select source, state, run_id, -1 from removed where deleted_at is null) c
         group by source, state, run having sum(n) <> 0;
      else
        delete from fillrate.row_counts;
      end if;
      return null;
    end $$`.execute(db)
  for (const [event, tables] of [
    ['insert', 'referencing new table as added'],
    ['update', 'referencing old table as removed new table as added'],
    ['delete', 'referencing old table as removed'],
    ['truncate', ''],
  ] as const)
    await sql`
      create trigger ${sql.id(`count_${event}`)} after ${sql.raw(event)} on fillrate.rows ${sql.raw(tables)}
        for each statement execute function fillrate.count_rows()`.execute(db)

  // Values of a record that were not written to their cells, each with its reason: a code, and what differs within it
  // (a constraint, a bound). Replaced whenever the row is finished again. A value is part of the record of `lookup_id`
  // and is deleted with it.
  await sql`
    create table fillrate.skipped_cells (
      source text collate "C" not null,
      key text collate "C" not null,
      "column" text collate "C" not null,
      run_id bigint,
      lookup_id bigint,
      reason text not null,
      detail text,
      value jsonb,
      skipped_at timestamptz not null default now(),
      primary key (source, key, "column")
    ) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)`.execute(db)
  await sql`create index skipped_cells_by_lookup on fillrate.skipped_cells (lookup_id)`.execute(db)
  await sql`create index skipped_cells_by_run on fillrate.skipped_cells (run_id)`.execute(db)

  // One write to one row, with the values before and after, and what `last_written` and `earlier_writes` had of its columns. `input_hash`: the inputs that it was made for; an undo has those of
  // the write that it undoes. Found by its row or by its run, never by its id alone: an index of
  // that, beside one of the row, took a seventeenth of finishing a row.
  await sql`
    create table fillrate.changes (
      id bigint generated always as identity,
      run_id bigint,
      lookup_id bigint,
      input_hash bigint,
      written_at timestamptz not null default now(),
      source text collate "C" not null,
      key text collate "C" not null,
      before jsonb not null,
      after jsonb not null,
      last_written_before jsonb,
      earlier_writes_before jsonb,
      undone_by_change_id bigint,
      primary key (key, source, id)
    )`.execute(db)
  await sql`create index changes_by_run on fillrate.changes (run_id, id)`.execute(db)
  await sql`create index changes_by_undoing_change on fillrate.changes (undone_by_change_id) where undone_by_change_id is not null`.execute(
    db,
  )
}

async function createJobs(db: Kysely<unknown>): Promise<void> {
  // One bulk submission of people, or of companies (`is_company`). `key` is our identifier, part of the webhook URL; `job_id` is that
  // of the service `service_id`, and says nothing without it. `is_async_answer`: the service accepted a single lookup and answers it later; its only result belongs to
  // that lookup, whatever identifier the result carries. `release_at`: the job is finished and some of its inputs have no
  // result. Until then a further delivery may bring them; afterwards they are requested again, one by one.
  // `poll_at`: when it is fetched next, if nothing is delivered before. `polls`: how often it was. `cursor`: where its next page
  // is; null: its results begin. `pages`: how many wait in `deliveries` for the last one.
  // `members_by_source`: how many of its lookups were requested for each source, and `credits_by_source` the most that these
  // may cost. `most`: the most credits of a lookup of each kind, settled with its result; null: one credit each, known when the job is
  // accepted. `credits`: what is counted of the job so far; `credits_stated`: what the service says that the whole job has cost.
  await sql`
    create table fillrate.jobs (
      key uuid primary key,
      service_id smallint not null default 0,
      job_id text collate "C",
      scope text,
      state text not null check (state in
        ('submitting', 'submitted', 'completed', 'unread', 'failed', 'in_doubt', 'rejected', 'expired')),
      reason text,
      size integer not null check (size between 1 and 1000),
      attempts integer not null default 1 check (attempts >= 1),
      run_id bigint references fillrate.runs (id) on delete set null,
      lookup_ids bigint[] not null,
      is_company boolean not null default false,
      members_by_source jsonb not null default '{}',
      credits_by_source jsonb not null default '{}',
      most jsonb,
      credits numeric,
      credits_stated numeric,
      is_async_answer boolean not null default false,
      request_ids jsonb,
      not_before timestamptz,
      lease_token uuid,
      leased_until timestamptz,
      created_at timestamptz not null default now(),
      submitted_at timestamptz,
      deadline_at timestamptz not null,
      finished_at timestamptz,
      release_at timestamptz,
      poll_at timestamptz,
      polls integer not null default 0,
      cursor text,
      pages integer not null default 0,
      check (cardinality(lookup_ids) = size),
      check ((lease_token is null) = (leased_until is null)),
      check ((state in ('completed', 'unread', 'failed', 'rejected', 'expired')) = (finished_at is not null))
    )`.execute(db)
  await sql`create index jobs_by_job_id on fillrate.jobs (job_id, service_id) where job_id is not null`.execute(
    db,
  )
  await sql`create index jobs_submitting on fillrate.jobs (run_id, created_at) where state = 'submitting'`.execute(
    db,
  )
  await sql`create index jobs_waiting on fillrate.jobs (deadline_at) where state in ('submitted', 'in_doubt')`.execute(
    db,
  )
  await sql`create index jobs_unread on fillrate.jobs (service_id) where state = 'unread'`.execute(db)
  await sql`create index jobs_expired on fillrate.jobs (finished_at) where state = 'expired'`.execute(db)
  await sql`create index jobs_by_run on fillrate.jobs (run_id)`.execute(db)
  await sql`create index jobs_to_poll on fillrate.jobs (poll_at) where state = 'submitted' and poll_at is not null`.execute(
    db,
  )
  await sql`create index jobs_to_release on fillrate.jobs (release_at) where release_at is not null`.execute(
    db,
  )

  // One verified webhook event. `id`: of the job and the content, because a service may number its events by job, and send
  // one again with more in it. `service_id`: the service of the process that received it, whose processes alone read and settle
  // it; null: not configured there. `quarantined_results` counts results that match no input of the job and were not used.
  // `partial`: a page of the results of a job, in the order of `event_id`; the last one makes a delivery of them.
  await sql`
    create table fillrate.deliveries (
      id uuid primary key default gen_random_uuid(),
      event_id text collate "C" not null,
      service_id smallint,
      job_key uuid,
      job_id text collate "C",
      state text not null check (state in ('partial', 'received', 'settled', 'orphaned', 'quarantined')),
      reason text,
      quarantined_results integer not null default 0,
      received_at timestamptz not null default now(),
      body text,
      raw bytea,
      settled_at timestamptz,
      check (body is not null or raw is not null)
    )`.execute(db)
  // Where Postgres is built with it. Its own method takes several times as long, a twentieth of its work for a row in bulk.
  const { rows } = await sql<{ hasLz4: boolean }>`
    select 'lz4' = any(enumvals) as "hasLz4" from pg_settings where name = 'default_toast_compression'`.execute(
    db,
  )
  if (rows[0]?.hasLz4 === true)
    await sql`alter table fillrate.deliveries alter column body set compression lz4`.execute(db)
  await sql`create index deliveries_received on fillrate.deliveries (received_at) where state = 'received'`.execute(
    db,
  )
  await sql`create index deliveries_orphaned on fillrate.deliveries (job_id) where state = 'orphaned'`.execute(
    db,
  )
  await sql`create index deliveries_partial on fillrate.deliveries (job_key) where state = 'partial'`.execute(
    db,
  )
  await sql`create index deliveries_by_job on fillrate.deliveries (job_key)`.execute(db)
  await sql`create index deliveries_by_age on fillrate.deliveries (received_at)`.execute(db)
  await sql`
    create index deliveries_quarantined on fillrate.deliveries (quarantined_results)
      where quarantined_results > 0`.execute(db)
}

async function createSpend(db: Kysely<unknown>): Promise<void> {
  // What was requested of the service and is billed, by day (UTC), run, source and endpoint: `calls` with an answer or in
  // doubt, of which `retried` and `throttled` (429) brought none; `lookups` that the service answered or accepted in a
  // job; `in_doubt`: lookups beside these that may be billed, because the answer was lost. `credits`: what the answers
  // cost; `credits_in_doubt`: the most that lost answers, and results that are not there yet, may cost. Both are decimals, because
  // services bill parts of a credit. `overrun`: the most that an answer has stated to cost, if that is more than was expected of it.
  // Added to by the statement that stores an answer, so that it is exact after any crash. Never deleted with the run.
  await sql`
    create table fillrate.spend (
      run_id bigint not null,
      day date not null default (now() at time zone 'UTC')::date,
      service_id smallint not null,
      source text collate "C" not null,
      endpoint text collate "C" not null check (endpoint in ('person', 'company', 'bulk')),
      calls bigint not null default 0,
      retried bigint not null default 0,
      throttled bigint not null default 0,
      lookups bigint not null default 0,
      in_doubt bigint not null default 0,
      credits numeric not null default 0,
      credits_in_doubt numeric not null default 0,
      overrun numeric,
      primary key (run_id, day, service_id, source, endpoint)
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`.execute(
    db,
  )
  await sql`create index spend_by_day on fillrate.spend (day)`.execute(db)

  // The lookups of a job are billed once it is known to be accepted, by the 202 or by a delivery. They are in doubt while
  // it is, and stay so if it expires. A trigger, because six statements change the state of jobs, a hundred lookups at a
  // time. They count for the day on which the job was created; companies for the endpoint that gives them their price.
  await sql`
    create function fillrate.count_job_spend() returns trigger language plpgsql as $$
    begin
      insert into fillrate.spend as s (run_id, day, service_id, source, endpoint, lookups, in_doubt, credits, credits_in_doubt)
      select coalesce(j.run_id, 0), (j.created_at at time zone 'UTC')::date, j.service_id, m.source,
             case when j.is_company then 'company' else 'bulk' end,
             sum(m.size * (j.billed - j.was_billed)), sum(m.size * (j.doubtful - j.was_doubtful)),
             sum(case when j.most is null then m.size * (j.billed - j.was_billed) else 0 end),
             sum(case when j.most is null then m.size * (j.doubtful - j.was_doubtful)
                      else (j.credits_by_source ->> m.source)::numeric
                             * (greatest(j.billed, j.doubtful) - greatest(j.was_billed, j.was_doubtful)) end)
        from (
          select n.*, (n.submitted_at is not null)::integer as billed, (o.submitted_at is not null)::integer as was_billed,
                 (n.submitted_at is null and n.state in ('in_doubt', 'expired'))::integer as doubtful,
                 (o.submitted_at is null and o.state in ('in_doubt', 'expired'))::integer as was_doubtful
            from changed n join former o using (key)
        ) j
        cross join lateral (select key as source, value::integer as size from jsonb_each_text(j.members_by_source)) m
       where (j.billed, j.doubtful) <> (j.was_billed, j.was_doubtful)
       group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
      on conflict (run_id, day, service_id, source, endpoint) do update
         set lookups = s.lookups + excluded.lookups, in_doubt = s.in_doubt + excluded.in_doubt,
             credits = s.credits + excluded.credits, credits_in_doubt = s.credits_in_doubt + excluded.credits_in_doubt;
      return null;
    end $$`.execute(db)
  await sql`
    create trigger count_spend after update on fillrate.jobs referencing old table as former new table as changed
      for each statement execute function fillrate.count_job_spend()`.execute(db)
}

async function createCoordination(db: Kysely<unknown>): Promise<void> {
  // Leases by which one process is elected: the leader of a scope, or the process that runs live sync.
  await sql`
    create table fillrate.leases (
      scope text collate "C" primary key,
      lease_token uuid not null,
      leased_until timestamptz not null,
      acquired_at timestamptz not null default now(),
      owner text not null
    )`.execute(db)

  // The rate limit of a scope, as its leader knows it; `limit` is null where only its `status` is known. `exhausted_until`: by endpoint,
  // or for `all`, the next leader must not call before then, because the limit may be exhausted. `usage`: of a service that documents limits, the calls of their windows as of
  // `usage_at`. `status`: the leader's latest report, which `fillrate status` shows.
  await sql`
    create table fillrate.rate_limits (
      scope text collate "C" primary key,
      service_id smallint not null default 0,
      "limit" bigint check ("limit" >= 0),
      window_ms bigint check (window_ms > 0),
      observed_at timestamptz not null,
      exhausted_until jsonb,
      exhausted_at timestamptz,
      usage jsonb,
      usage_at timestamptz,
      status jsonb,
      reported_at timestamptz,
      check ((exhausted_until is null) = (exhausted_at is null)),
      check ((usage is null) = (usage_at is null)),
      check ((status is null) = (reported_at is null))
    )`.execute(db)

  // Open circuit breakers: the service is down, and is probed at `probe_at`, stored at `stored_at`. `cause`: it does not respond
  // at all, answers with errors, says that the account has no credits left, or rejects the key.
  await sql`
    create table fillrate.circuit_breakers (
      scope text collate "C" primary key,
      opened_at timestamptz not null default now(),
      probe_at timestamptz not null,
      stored_at timestamptz not null default now(),
      backoff_ms integer not null check (backoff_ms > 0),
      reason text,
      cause text not null check (cause in ('unreachable', 'failing', 'out_of_credits', 'key_refused')),
      service_id smallint not null default 0
    )`.execute(db)

  // The processes that serve, run or wait, each with its configuration (no secrets). A process deletes its row when it
  // ends; one that was killed leaves it behind with an old `seen_at`. `refused`, `refused_at`: by which SQLSTATE Postgres
  // refused its statements last (its disk is full), which others may not have met.
  await sql`
    create table fillrate.processes (
      owner text collate "C" primary key,
      role text not null check (role in ('start', 'serve', 'run')),
      host text not null,
      pid integer not null,
      version text not null,
      node_version text not null,
      config jsonb not null,
      config_path text,
      started_at timestamptz not null,
      seen_at timestamptz not null default now(),
      refused text,
      refused_at timestamptz
    ) with (fillfactor = 50)`.execute(db)
}

// Who has changed what, on the dashboard, on the command line and through the library. `outcome` is null while the action
// is under way, or if its process died. `request_id` is that of the form which requested it: a form that is sent twice
// acts once. `run_id` has no foreign key: the list outlives the runs.
async function createAudit(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table fillrate.audit_events (
      id bigint generated always as identity primary key,
      at timestamptz not null default now(),
      actor text not null,
      origin text not null check (origin in ('dashboard', 'command line', 'library')),
      action text not null,
      parameters jsonb not null default '{}',
      outcome text check (outcome in ('done', 'interrupted', 'failed')),
      detail text,
      run_id bigint,
      request_id uuid unique,
      finished_at timestamptz,
      check ((outcome is null) = (finished_at is null))
    )`.execute(db)
}

async function createLiveSync(db: Kysely<unknown>): Promise<void> {
  // What is known of a source. `configured_at`: when a process had it in its configuration, to the hour. `paused_at` to `resume_at`:
  // a user has paused it, and when that ends by itself. `per_hour` to `slowed_at`: how many more rows of one with `writes` may be
  // written, at a time, and when a write has waited for it last.
  await sql`
    create table fillrate.source_state (
      source text collate "C" primary key,
      configured_at timestamptz,
      paused_at timestamptz,
      paused_by text,
      pause_reason text,
      resume_at timestamptz,
      per_hour integer,
      allowance double precision,
      allowed_at timestamptz,
      slowed_at timestamptz,
      check ((paused_at is null) = (paused_by is null))
    ) with (fillfactor = 50)`.execute(db)

  // The queue of changed rows. The triggers on users' tables only append to it; `changed_rows_spare` takes the keys of
  // statements that find `changed_rows` locked (VACUUM FULL, REINDEX, an ALTER).
  // - One row per statement, with its keys. To hold each key only once would require a unique index: a transaction that
  //   changes a key which another one has changed would wait for it, and fail at REPEATABLE READ.
  // - The primary key gives the order of reading. No sequence: `alter sequence` in an open transaction locks it.
  // - Without `vacuum_truncate = false`, autovacuum would take an exclusive lock now and then.
  // - 100,000 keys are a megabyte: with another storage, the user's statement would wait for their compression. To count what is
  //   left of an import, `rows` and `rows_picked` are read, and no key.
  const settings = sql`
    with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, vacuum_truncate = false)`
  for (const table of ['changed_rows', 'changed_rows_spare']) {
    const name = sql.id('fillrate', table)
    await sql`
      create table ${name} (
        changed_at timestamptz not null default now(),
        id uuid not null default gen_random_uuid(),
        source text not null,
        keys text[] not null,
        is_import boolean not null,
        is_delete boolean not null default false,
        rows integer not null generated always as (cardinality(keys)) stored,
        rows_picked integer not null default 0,
        primary key (changed_at, id)
      ) ${settings}`.execute(db)
    await sql`alter table ${name} alter column keys set storage external`.execute(db)
  }
}

/** Written by the processes that do the work, and read by any other. Decides nothing. */
async function createMonitoring(db: Kysely<unknown>): Promise<void> {
  // What keeps rows from being enriched, one row from its begin to its end: domain/condition.ts has the kinds. The index
  // lets a condition begin once, however many processes see it. `seen_at`: when a process last saw that it holds. `is_reported`: a
  // part of the program has found it out, and ends it. `accepted_by`: the targets that have accepted its begin (`began KEY`) and its end.
  await sql`
    create table fillrate.conditions (
      id bigint generated always as identity primary key,
      kind text collate "C" not null,
      service text collate "C",
      source text collate "C",
      details jsonb not null default '{}',
      began_at timestamptz not null,
      seen_at timestamptz not null,
      ended_at timestamptz,
      is_reported boolean not null default false,
      accepted_by text[] not null default '{}',
      check (ended_at >= began_at)
    ) with (fillfactor = 70)`.execute(db)
  await sql`
    create unique index conditions_open on fillrate.conditions (kind, coalesce(service, ''), coalesce(source, ''))
     where ended_at is null`.execute(db)
  await sql`create index conditions_by_age on fillrate.conditions (began_at)`.execute(db)
}

/** What foreign keys with `on delete` would do, in one statement for all deleted rows. */
async function createCascades(db: Kysely<unknown>): Promise<void> {
  await sql`
    create function fillrate.detach_lookups() returns trigger language plpgsql as $$
    begin
      update fillrate.rows set lookup_id = null where lookup_id in (select id from deleted);
      delete from fillrate.skipped_cells where lookup_id in (select id from deleted);
      return null;
    end $$`.execute(db)
  await sql`
    create trigger on_delete_cascade after delete on fillrate.lookups referencing old table as deleted
      for each statement execute function fillrate.detach_lookups()`.execute(db)

  await sql`
    create function fillrate.detach_runs() returns trigger language plpgsql as $$
    begin
      update fillrate.rows set run_id = null where run_id in (select id from deleted);
      update fillrate.changes set run_id = null where run_id in (select id from deleted);
      update fillrate.skipped_cells set run_id = null where run_id in (select id from deleted);
      return null;
    end $$`.execute(db)
  await sql`
    create trigger on_delete_cascade after delete on fillrate.runs referencing old table as deleted
      for each statement execute function fillrate.detach_runs()`.execute(db)

  // No function of this schema is for others to execute: a trigger fires without that privilege.
  for (const name of ['detach_lookups', 'detach_runs', 'count_rows', 'count_job_spend'])
    await sql`revoke all on function ${sql.id('fillrate', name)}() from public`.execute(db)
}

/**
 * Postgres refuses to delete from a table without a key that a publication for all tables includes, as change data capture
 * often creates. A key would be one more index for each of the rows of these queues. Written to the WAL only with `wal_level` logical.
 */
async function createReplicaIdentities(db: Kysely<unknown>): Promise<void> {
  for (const table of ['row_counts', 'answered_lookups'])
    await sql`alter table ${sql.id('fillrate', table)} replica identity full`.execute(db)
}
