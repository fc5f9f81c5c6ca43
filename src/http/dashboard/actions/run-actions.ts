import { auditActionOnce } from '../../../actions/audit.ts'
import { cancelRun } from '../../../actions/cancel.ts'
import type { UndoReport } from '../../../actions/undo/report.ts'
import { toRequestProgress } from '../../../domain/requested-run.ts'
import * as requests from '../../../store/requested-runs.ts'
import { formatCount, pluralize } from '../../../util/format.ts'
import { dataTable, definitionList, empty, nameText, timeAgo } from '../components.ts'
import type { DashboardDeps } from '../dashboard-app.ts'
import { html, rowUrl, type Html } from '../html.ts'
import { type Page, type PageRequest, refused } from '../page.ts'
import { defineAction, previewSignal, requireApp, requireRun } from './action.ts'
import { daemonNotice, describePass, requestRun } from './start-run.ts'
import { leftOutNotice } from './plan-view.ts'

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

/** Undoes a run: its preview is the confirmation. */
export const undoAction = defineAction({
  path: '/runs/:id/undo',
  find: requireRun,
  pageOf: runUrl,
  confirm: async ({ id: run }, deps) => {
    const preview = await requireApp(deps).undo({ run, dryRun: true, signal: previewSignal() })
    const { restored, total, undone_before: before } = preview.changes
    const others = preview.others ?? []
    const isPartial = preview.status === 'interrupted'
    return {
      title: `Undo run ${run}`,
      body: [
        html`<p>
          Restores the previous value of each cell that the run has written, except cells that were changed
          since.
          ${others.length > 0 && `So it does for the runs of the services after it: ${others.join(', ')}.`}
          The undo is a run itself, and can be undone. Runs write these rows again when their inputs change,
          their record is due, or they are retried.
        </p>`,
        total === 0
          ? empty(`Run ${run} has written nothing.`)
          : total === before
            ? empty(`Everything that run ${run} wrote is undone already.`)
            : undoPreview(preview),
      ],
      button:
        restored === 0 && !isPartial
          ? null
          : `Undo run ${run}: restore ${isPartial ? 'at least ' : ''}${pluralize(restored, 'row')}`,
      isDangerous: true,
    }
  },
  perform: async ({ id: run, alive }, request, deps) => {
    if (alive)
      throw refused(
        409,
        'Not possible',
        html`<p>Run ${run} is still running. <a href="/runs/${run}/cancel">Cancel it</a> first.</p>`,
      )
    return requestRun(deps, request, {
      action: 'undo',
      work: { kind: 'undo', run },
      parameters: { of_run: run },
    })
  },
})

/** Rows listed by name. */
const MAX_KEPT = 20

function undoPreview({ changes, cells, columns, kept, status, left_out: leftOut }: UndoReport): Html {
  return html`${leftOutNotice(leftOut)}
  ${
    status === 'interrupted' &&
    html`<p class="notice warn">
      A preview of the newest ${formatCount(changes.total - changes.remaining)} of
      ${formatCount(changes.total)} writes. The undo reverts all of them.
    </p>`
  }
  ${definitionList([
    ['Rows restored', html`<b class="figure">${formatCount(changes.restored)}</b>`],
    ['Cells restored', formatCount(cells.restored)],
    ['Cells kept, because they were changed since', cells.kept === 0 ? null : formatCount(cells.kept)],
    ['Undone before', changes.undone_before === 0 ? null : pluralize(changes.undone_before, 'row')],
    ['Deleted since', changes.row_missing === 0 ? null : pluralize(changes.row_missing, 'row')],
    [
      'Of sources that are no longer configured',
      changes.not_configured === 0 ? null : pluralize(changes.not_configured, 'row'),
    ],
  ])}
  ${dataTable<UndoReport['columns'][number]>(
    'By column',
    [
      { name: 'column', kind: 'row', cell: ({ column }) => nameText(column) },
      { name: 'source', cell: ({ source }) => nameText(source) },
      { name: 'restored', kind: 'number', cell: ({ restored }) => formatCount(restored) },
      { name: 'kept', kind: 'number', cell: ({ kept: left }) => formatCount(left) },
    ],
    columns,
    { isCaptionShown: true },
  )}
  ${
    kept.length > 0 &&
    html`<p class="sub">
      Rows with values that stay:
      ${kept
        .slice(0, MAX_KEPT)
        .map((row, n) => html`${n > 0 && ', '}<a href="${rowUrl(row)}">${row.source} ${row.key}</a>`)}
      ${kept.length > MAX_KEPT && ` and ${pluralize(kept.length - MAX_KEPT, 'more row')}`}
    </p>`
  }`
}

/** Withdraws a request that no process has taken. */
export const withdrawAction = defineAction({
  path: '/requests/:id/withdraw',
  find: requireRequest,
  pageOf: ({ id }) => `/requests/${id}`,
  confirm: (found) => {
    const isWaiting = toRequestProgress(found).state === 'waiting'
    return {
      title: 'Withdraw this request',
      body: isWaiting
        ? html`<p>It is not started any more. Nothing was called or written for it.</p>`
        : html`<p>It has started or ended already.</p>`,
      button: isWaiting ? 'Withdraw' : null,
    }
  },
  perform: async ({ id }, { actor, requestId }, { db }) =>
    auditActionOnce(
      db,
      { actor, requestId, action: 'withdraw', parameters: { request: id } },
      () => requests.withdrawRequest(db, id, actor.name),
      (isWithdrawn) => ({
        outcome: isWithdrawn ? 'done' : 'failed',
        detail: isWithdrawn ? null : 'a process had taken it already',
      }),
    ),
})

/** A request, which leads to its run as soon as there is one. */
export const requestPage: Page = {
  path: '/requests/:id',
  show: async (request, deps) => {
    const found = await requireRequest(request, deps)
    const progress = toRequestProgress(found)
    if (progress.state === 'started') return { redirect: `/runs/${progress.run}` }
    const { work, by } = found
    const isWaiting = progress.state === 'waiting'
    const title = work.kind === 'run' ? 'Requested run' : `Requested undo of run ${work.run}`
    return {
      title,
      ...(isWaiting && { refreshSeconds: 2 }),
      body: html`<h1>${title}</h1>
        ${isWaiting && work.kind === 'run' && (await daemonNotice(deps.db))}
        ${
          progress.state === 'waiting'
            ? html`<p class="notice busy" role="status">
                Waiting for a process to take it. This page leads to the run as soon as it has started.
              </p>`
            : html`<p class="notice warn" role="status">
                It was not executed: ${progress.reason ?? 'no reason given'}.
              </p>`
        }
        <section class="card">
          ${definitionList([
            ...(work.kind === 'run' ? describePass(work) : []),
            ['Requested', html`${timeAgo(found.requested_at, Date.now())}, by ${by}`],
          ])}
        </section>
        <p class="choices">
          ${isWaiting && request.canAct && html`<a class="button" href="/requests/${found.id}/withdraw">Withdraw</a>`}
          <a class="button" href="/">Back to the dashboard</a>
        </p>`,
    }
  },
}

async function requireRequest(
  { params }: PageRequest,
  { db }: DashboardDeps,
): Promise<requests.RequestState> {
  const found = await requests.findRequest(db, params['id'] ?? '')
  if (found !== null) return found
  throw refused(404, 'No such request', html`<p>It may have been deleted with old runs.</p>`)
}
