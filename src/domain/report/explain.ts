import { z } from 'zod'
import type { LookupKind } from '../identifiers/kind.ts'
import { Job } from '../job.ts'
import type { LookupState } from '../lookup.ts'
import type { WritePolicy } from '../mapping.ts'
import { ROW_STATES } from '../row.ts'
import type { SkipReason } from '../skipped-cell.ts'
import { is, object, type ReportOf } from './shape.ts'

/** A lookup of a row. */
export type LookupSummary = ReportOf<typeof lookup>
const lookup = object({
  id: is.count('its number'),
  service: is.orAbsent(is.text('its service, where the database knows several')),
  went_on: is.orAbsent(is.text('why the row went on to another service; absent: it did not')),
  kind: is.text<LookupKind>('`email`, `linkedin_url`, `name_company` or `domain`'),
  input: is.byName('the input of the lookup', z.string()),
  state: is.text<LookupState>('state of the lookup'),
  reason: is.orNull(is.text('why it is in this state; null: nothing more to say')),
  attempts: is.count('calls that failed'),
  unconfirmed_calls: is.count('calls without an answer, which may have been billed'),
  confidence: is.orNull(is.number('of its record, 0 to 1; null: none')),
  run: is.orNull(is.count('the run that requested it; null: none yet')),
  job: is.orNull(is.text('the key of its job; null: it is requested singly')),
  requested_at: is.orNull(is.time('when it was requested last; null: not yet')),
  resolved_at: is.orNull(is.time('when it was answered; null: not yet')),
  not_before: is.orNull(is.time('when it may be requested again; null: at once')),
  leased_until: is.orNull(is.time('until when a process holds it; null: none does')),
  refresh_at: is.orNull(is.time('when its answer is too old to be used; null: never')),
  rows: is.count('rows that share it, this one included'),
  malformed_response: is.orNull(
    object({
      status: is.count('HTTP status'),
      body: is.text('its body, cut'),
      received_at: is.isoTime('when it came'),
    }).describe('the latest response that was no valid record; null: none is stored'),
  ),
}).meta({ id: 'stored-lookup' })

const job = object({
  key: is.text('Fillrate’s own name of the job'),
  job_id: is.orNull(is.text('the service’s name of it; null: it was not accepted')),
  state: z.enum(Object.values(Job)).describe('state of the job'),
  reason: is.orNull(is.text('why it is in this state; null: nothing more to say')),
  size: is.count('inputs in it'),
  run: is.orNull(is.count('the run that submitted it; null: retention has deleted the run')),
  created_at: is.time('when it was created'),
  submitted_at: is.orNull(is.time('when the service accepted it; null: not accepted')),
  deadline_at: is.time('when it expires without a delivery'),
  finished_at: is.orNull(is.time('when it was delivered, rejected or expired; null: it is open')),
})

/** A column as it is now, and where its value is from. */
export type ColumnState = ReportOf<typeof columnState>
const columnState = object({
  column: is.text('column of the table'),
  value: is.anything('its value'),
  blank: is.boolean('it counts as blank'),
  policy: is.orNull(is.text<WritePolicy>('policy of the output; null: a column of `touch`')),
  written_by_fillrate: is.orNull(
    is.boolean('it holds what Fillrate wrote; null: what Fillrate wrote to the row was erased'),
  ),
  written_by_source: is.orNull(
    is.text('the source that wrote it, this one or another one on the table; null: none'),
  ),
  written_by: is.orNull(is.count('the run that wrote it; null: none, or unknown')),
  service: is.orAbsent(is.text('the service that it is from, where the database knows several')),
})

/** What Fillrate knows of a row. */
export type RowStatus = ReportOf<typeof rowStatus>
const rowStatus = object({
  state: z.enum(ROW_STATES).describe('its state'),
  reason: is.orNull(is.text('why; null: the state says all')),
  notes: is.orNull(is.byName('further facts, by name', z.unknown())),
  run: is.orNull(is.count('the run that finished it last, or that holds it; null: none')),
  alive: is.boolean('the process of this run is alive'),
  inputs_changed: is.boolean('its inputs are others than when it was picked'),
  picked_at: is.time('when it was picked last'),
  settled_at: is.orNull(is.time('when it got its state; null: it waits')),
  due_at: is.orNull(is.time('when it is due again; null: at its next change')),
})

/** One output: its field of the record, and what became of the value. */
export type ExplainedField = ReportOf<typeof explainedField>
const explainedField = object({
  service: is.orAbsent(is.text('the service whose record it is, where the database knows several')),
  field: is.text('field of the record'),
  column: is.text('column of the table'),
  value: is.anything('value of the record'),
  skipped: is.orNull(is.text<SkipReason>('why it is not written, as a name; null: it is, or could be')),
  result: is.text('whether it was written, and why not, in words'),
})

/** A write of Fillrate to the row. */
export type RowChange = ReportOf<typeof rowChange>
const rowChange = object({
  id: is.count('its number'),
  run: is.orNull(is.count('the run that wrote; null: retention has deleted it')),
  service: is.orAbsent(is.text('the service whose record it wrote, where the database knows several')),
  written_at: is.time('when'),
  undoes: is.orNull(is.count('the run whose write it takes back; null: it is no undo')),
  undone_by: is.orNull(is.count('the run that took it back; null: none')),
  cells: is.list(
    'the cells that it changed',
    object({
      column: is.text('column of the table'),
      before: is.anything('value before; null: NULL'),
      after: is.anything('value after; null: NULL'),
      undone: is.boolean('this cell was taken back'),
    }),
  ),
})

/** What happens next to a row, and when. */
export type NextStep = ReportOf<typeof nextStep>
const nextStep = object({
  what: is.text('what happens to the row next, in words'),
  at: is.orNull(is.time('when; null: at the next run, or never')),
})

/**
 * One row's history, from its current values to its next step.
 * @example
 * const history = await fillrate.explain('contacts', '42')
 */
export type RowHistory = ReportOf<typeof explainReport>
export const explainReport = object({
  source: is.text('its name'),
  key: is.text('key of the row'),
  table: is.text('table of the source'),
  row: object({
    exists: is.boolean('the table has it'),
    excluded_by: is.orNull(
      is.text<'joins' | 'where'>(
        '`joins` or `where`: what leaves it out of the source; null: it belongs to it',
      ),
    ),
    unmet_conditions: is.texts('the conditions of `where` that it does not meet, where these leave it out'),
    join_count: is.count('rows that the joins return for it; more than one is a mistake of the mapping'),
    problem: is.orNull(is.text('error of an expression that fails on it; null: none')),
    fresh_until: is.orNull(
      is.time('until when its `freshness` keeps it from being picked; null: it does not'),
    ),
    inputs: is.byName('its inputs, without what Fillrate filled itself', is.orNull(z.string())),
    filled_inputs: is.byName('inputs that Fillrate filled itself: it is not looked up by them', z.string()),
    lookup_request: is.orNull(
      object({
        kind: is.text<LookupKind>('kind of the lookup'),
        input: is.byName('input of the lookup', z.string()),
      }).describe('the lookup that its inputs make; null: none is usable, or may be requested'),
    ),
    is_suppressed: is.boolean('an identifier of it was erased: it is never looked up'),
    input_notes: is.list(
      'inputs that are not used',
      object({ input: is.text('its name'), reason: is.text('why not') }),
    ),
    columns: is.list('the outputs as they are now', columnState),
  }).describe('the row of your table'),
  state: is.orNull(rowStatus.describe('what Fillrate knows of the row; null: it was never picked')),
  lookup: is.orNull(lookup.describe('its lookup; null: none')),
  missed_lookups: is.list('lookups before this one: of its cascade, and of earlier services', lookup),
  job: is.orNull(job.describe('the job of the lookup; null: it is requested singly')),
  record: is.anything('the record, as the service sent it; null: none'),
  fields: is.list(
    'the outputs, and what became of the record’s value; of several services, those of each record in their order',
    explainedField,
  ),
  changes: is.list('writes of Fillrate to the row, newest first', rowChange),
  next: nextStep.describe('the next step'),
})
