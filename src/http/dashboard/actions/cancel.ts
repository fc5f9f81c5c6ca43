import { auditActionOnce } from '../../../actions/audit.ts'
import { cancelRun } from '../../../actions/cancel.ts'
import { html } from '../html.ts'
import { requireRun } from '../page.ts'
import { defineAction } from './action.ts'

const runUrl = ({ id }: { readonly id: number }): string => `/runs/${id}`

/** Cancels a run of any process. */
export const cancelAction = defineAction({
  path: '/runs/:id/cancel',
  find: requireRun,
  pageOf: runUrl,
  confirm: (run) => ({
    title: `Cancel run ${run.id}`,
    body: run.alive
      ? html`<p>
          Its process stops taking work within seconds, and finishes what is under way. Nothing is lost: rows
          that still wait are left to the next run. A scheduled run is not started again before its next time.
        </p>`
      : html`<p>Run ${run.id} has ended: ${run.state}.</p>`,
    button: run.alive ? `Cancel run ${run.id}` : null,
    isDangerous: true,
  }),
  perform: async ({ id: run }, { actor, requestId }, { db }) =>
    auditActionOnce(
      db,
      { actor, requestId, action: 'cancel', parameters: {}, run },
      () => cancelRun(db, { run, by: actor.name, waitMs: 0, signal: new AbortController().signal }),
      (report) => ({
        outcome: 'done',
        detail: report.state === 'running' ? 'it finishes what is under way' : report.reason,
      }),
    ),
})
