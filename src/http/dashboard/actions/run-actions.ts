import type { FastifyInstance } from 'fastify'
import { cancelRun } from '../../../actions/cancel.ts'
import type { UndoReport } from '../../../actions/undo/report.ts'
import { toRequestProgress } from '../../../domain/requested-run.ts'
import * as requests from '../../../store/requested-runs.ts'
import * as runs from '../../../store/runs.ts'
import { formatCount, pluralize } from '../../../util/format.ts'
import { dataTable, definitionList, nameText, timeAgo } from '../components.ts'
import { html, rowUrl, type Html } from '../html.ts'
import {
  ActionRefused,
  parseRunId,
  perform,
  PREVIEW_TIMEOUT_MS,
  refusalPages,
  requireApp,
  type ActionDeps,
  type DashboardAction,
} from './action.ts'
import { daemonNotice, describePass, requestRun } from './start-run.ts'
import { leftOutNotice } from './plan-view.ts'

/** Cancels a run of any process. */
export function createCancelAction(deps: ActionDeps): DashboardAction {
  return {
    path: '/runs/:id/cancel',
    confirm: async ({ params }) => {
      const run = await requireRun(deps, params['id'])
      return {
        title: `Cancel run ${run.id}`,
        body: run.alive
          ? html`<p>
              Its process stops taking work within seconds, and finishes what is under way. Nothing is lost:
              rows that still wait are left to the next run. A scheduled run is not started again before its
              next time.
            </p>`
          : html`<p>Run ${run.id} has ended: ${run.state}.</p>`,
        button: run.alive ? `Cancel run ${run.id}` : null,
        isDangerous: true,
        backUrl: `/runs/${run.id}`,
      }
    },
    perform: async (request) => {
      const run = parseRunId(request.params['id'])
      await perform(
        deps,
        request,
        { action: 'cancel', parameters: {}, run },
        () =>
          cancelRun(deps.db, {
            run,
            by: request.actor.name,
            waitMs: 0,
            signal: new AbortController().signal,
          }),
        (report) => ({
          outcome: 'done',
          detail: report.state === 'running' ? 'it finishes what is under way' : report.reason,
        }),
      )
      return `/runs/${run}`
    },
  }
}

/** Undoes a run: its preview is the confirmation. */
export function createUndoAction(deps: ActionDeps): DashboardAction {
  return {
    path: '/runs/:id/undo',
    confirm: async ({ params }) => {
      const run = await requireRun(deps, params['id'])
      const preview = await requireApp(deps).undo({
        run: run.id,
        dryRun: true,
        signal: AbortSignal.timeout(PREVIEW_TIMEOUT_MS),
      })
      const { restored, total, undone_before: before } = preview.changes
      const isPartial = preview.status === 'interrupted'
      return {
        title: `Undo run ${run.id}`,
        body: [
          html`<p>
            Restores the previous value of each cell that the run has written, except cells that were changed
            since. The undo is a run itself, and can be undone. Runs write these rows again when their inputs
            change, their record is due, or they are retried.
          </p>`,
          total === 0
            ? html`<p class="empty">Run ${run.id} has written nothing.</p>`
            : total === before
              ? html`<p class="empty">Everything that run ${run.id} wrote is undone already.</p>`
              : undoPreview(preview),
        ],
        button:
          restored === 0 && !isPartial
            ? null
            : `Undo run ${run.id}: restore ${isPartial ? 'at least ' : ''}${pluralize(restored, 'row')}`,
        isDangerous: true,
        backUrl: `/runs/${run.id}`,
      }
    },
    perform: async (request) => {
      const run = await requireRun(deps, request.params['id'])
      if (run.alive)
        throw new ActionRefused(
          409,
          'Not possible',
          html`<p>Run ${run.id} is still running. <a href="/runs/${run.id}/cancel">Cancel it</a> first.</p>`,
        )
      return requestRun(deps, request, {
        action: 'undo',
        work: { kind: 'undo', run: run.id },
        parameters: { of_run: run.id },
      })
    },
  }
}

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
export function createWithdrawAction(deps: ActionDeps): DashboardAction {
  return {
    path: '/requests/:id/withdraw',
    confirm: async ({ params }) => {
      const request = await requireRequest(deps, params['id'])
      const isWaiting = toRequestProgress(request).state === 'waiting'
      return {
        title: 'Withdraw this request',
        body: isWaiting
          ? html`<p>It is not started any more. Nothing was called or written for it.</p>`
          : html`<p>It has started or ended already.</p>`,
        button: isWaiting ? 'Withdraw' : null,
        backUrl: `/requests/${request.id}`,
      }
    },
    perform: async (request) => {
      const { id } = await requireRequest(deps, request.params['id'])
      await perform(
        deps,
        request,
        { action: 'withdraw', parameters: { request: id } },
        () => requests.withdrawRequest(deps.db, id, request.actor.name),
        (isWithdrawn) => ({
          outcome: isWithdrawn ? 'done' : 'failed',
          detail: isWithdrawn ? null : 'a process had taken it already',
        }),
      )
      return `/requests/${id}`
    },
  }
}

/** Registers the page of a request, which leads to its run as soon as there is one. */
export function registerRequestPage(server: FastifyInstance, deps: ActionDeps): void {
  server.get<{ Params: { id: string } }>('/requests/:id', refusalPages(deps), async (request, reply) => {
    const found = await requireRequest(deps, request.params.id)
    const progress = toRequestProgress(found)
    if (progress.state === 'started') return reply.redirect(`/runs/${progress.run}`, 303)
    const { work, by } = found
    const title = work.kind === 'run' ? 'Requested run' : `Requested undo of run ${work.run}`
    return deps.send(
      request,
      reply,
      progress.state === 'waiting' ? { title, refreshSeconds: 2 } : { title },
      html`<h1>${title}</h1>
        ${progress.state === 'waiting' && work.kind === 'run' && (await daemonNotice(deps.db))}
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
          ${progress.state === 'waiting' && request.access?.isOperator === true && html`<a class="button" href="/requests/${found.id}/withdraw">Withdraw</a>`}
          <a class="button" href="/">Back to the dashboard</a>
        </p>`,
    )
  })
}

async function requireRequest(deps: ActionDeps, id = ''): Promise<requests.RequestState> {
  const found = await requests.findRequest(deps.db, id)
  if (found !== null) return found
  throw new ActionRefused(404, 'No such request', html`<p>It may have been deleted with old runs.</p>`)
}

async function requireRun(
  deps: ActionDeps,
  id: string | undefined,
): Promise<NonNullable<Awaited<ReturnType<typeof runs.findRun>>>> {
  const run = await runs.findRun(deps.db, parseRunId(id))
  if (run !== null) return run
  throw new ActionRefused(404, 'No such run', html`<p>There is no run ${id}.</p>`)
}
