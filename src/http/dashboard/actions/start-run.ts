import { lookupBudgetOf } from '../../../config/config.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PassRequest } from '../../../actions/validate-request.ts'
import { toRequestProgress, type RequestedRun } from '../../../domain/requested-run.ts'
import { insertAuditEvent } from '../../../store/audit.ts'
import type { Database } from '../../../store/open.ts'
import * as pauses from '../../../store/paused-sources.ts'
import { listProcesses } from '../../../store/processes.ts'
import * as requests from '../../../store/requested-runs.ts'
import { inTransaction } from '../../../store/transaction.ts'
import { formatCount, pluralize } from '../../../util/format.ts'
import { card, definitionList, nameText, timeAgo } from '../components.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import type { DashboardDeps } from '../dashboard-app.ts'
import { type Page, PageRefused, type PageRequest, refused } from '../page.ts'
import { type ActionRequest, defineAction, previewSignal, previewWithin, requireApp } from './action.ts'
import { formatBudget, parsePassForm, passForm, type PassProblems } from './pass-form.ts'
import { planCards } from './plan-view.ts'

/** The form of a run. */
export const runFormPage: Page = {
  path: '/runs/new',
  isOperatorOnly: true,
  show: async ({ query }, deps) => ({ title: 'Start a run', body: await runForm(deps, query, {}) }),
}

/** Starts a run: its preview is the confirmation. */
export const startAction = defineAction({
  path: '/runs/start',
  find: async ({ query }, deps) => parsePass(deps, query),
  pageOf: (_, { query }) => `/runs/new?${query}`,
  confirm: async (pass, deps) => {
    const plan = await previewWithin((signal) => requireApp(deps).plan(toPassRequest(pass, signal)))
    return {
      title: pass.isDryRun ? 'Start this dry run?' : 'Start this run?',
      body: [
        await daemonNotice(deps.db),
        html`<div class="grid">
          ${card('request', 'The run', definitionList(describePass(pass, { isShort: true })))}
          ${plan !== null && planCards(plan)}
        </div>`,
        plan === null &&
          html`<p class="notice">
            The preview takes too long for this page. <code>fillrate plan</code> reads everything.
          </p>`,
      ],
      button: pass.isDryRun ? 'Start the dry run' : 'Start the run',
      isWide: true,
    }
  },
  perform: async (pass, request, deps) => requestRun(deps, request, pass),
})

async function runForm(deps: DashboardDeps, query: URLSearchParams, problems: PassProblems): Promise<Html> {
  const paused = await pauses.filterPaused(deps.db, [...deps.sources().keys()])
  const sources = [...deps.sources().keys()].map((name) => ({ name, isPaused: paused.includes(name) }))
  return html`<h1>Start a run</h1>
    ${query.has('retried') && html`<p class="notice good" role="status">The rows are queued again. The next run of their source picks them; start it here, or leave it to the schedule.</p>`}
    ${await daemonNotice(deps.db)} ${passForm({ query, problems, sources, app: requireApp(deps) })}`
}

/** @throws PageRefused with the form again, and what is wrong in it */
async function parsePass(deps: DashboardDeps, query: URLSearchParams): Promise<RequestedRun> {
  const app = requireApp(deps)
  const refuse = async (problems: PassProblems): Promise<PageRefused> =>
    new PageRefused(422, 'Start a run', await runForm(deps, query, problems))
  const { pass, problems } = parsePassForm(query, [...deps.sources().keys()], {
    ...app.config,
    budget: lookupBudgetOf(app.config),
  })
  if (pass === null) throw await refuse(problems)
  try {
    await app.validate(toPassRequest(pass, previewSignal()))
  } catch (error) {
    if (pass.where === null) throw error
    throw await refuse({ where: (error as Error).message })
  }
  return pass
}

const toPassRequest = (pass: RequestedRun, signal: AbortSignal): PassRequest => ({
  ...pass,
  budget: pass.budget ?? 'unlimited',
  signal,
})

const MAX_NAMED_SOURCES = 4

/** @param isShort many sources are only counted: they are listed beside it */
const describePass = (
  pass: RequestedRun,
  { isShort = false }: { readonly isShort?: boolean } = {},
): ReadonlyArray<readonly [string, HtmlPart]> => [
  [
    'Sources',
    isShort && pass.sources.length > MAX_NAMED_SOURCES
      ? pluralize(pass.sources.length, 'source')
      : pass.sources.map((name, n) => [n > 0 && ', ', nameText(name)]),
  ],
  ['Budget', formatBudget(pass.budget)],
  ['Rows of each source', pass.limit === null ? 'all' : `at most ${formatCount(pass.limit)}`],
  ['Route', pass.route],
  ['Where', pass.where === null ? null : html`<code>${pass.where}</code>`],
  ['Result', pass.isDryRun ? 'reported only, nothing is written' : 'written to the tables'],
]

/** Says so if no process would execute a run. Null if there is one. */
async function daemonNotice(db: Database): Promise<Html | null> {
  if (await hasDaemon(db)) return null
  return html`<p class="notice warn" role="status">
    <b>No daemon is running.</b> Runs are executed by <code>fillrate start</code>; this process only receives
    and shows. A run that you request now starts when a daemon does, and is dropped after an hour.
  </p>`
}

const hasDaemon = async (db: Database): Promise<boolean> =>
  (await listProcesses(db)).some(({ role, isAlive }) => role === 'start' && isAlive)

/** How long the page waits for a process to take the request, in milliseconds: daemons poll every second. */
const CLAIM_WAIT_MS = 3_000
const CLAIM_POLL_MS = 100

/**
 * Stores a request, and waits a moment for its run.
 * @returns the page of the run, or of the request while it waits
 */
async function requestRun(
  deps: DashboardDeps,
  { requestId: id, actor }: ActionRequest,
  work: RequestedRun,
): Promise<string> {
  const { db } = deps
  const service = await requireApp(deps).service()
  await inTransaction(db, async (tx) => {
    const isNew = await insertAuditEvent(tx, { actor, requestId: id, action: 'run', parameters: { ...work } })
    if (isNew !== null) await requests.insertRequest(tx, { id, work, by: actor.name }, service)
  })
  const until = performance.now() + ((await hasDaemon(db)) ? CLAIM_WAIT_MS : 0)
  while (performance.now() < until) {
    const found = await requests.findRequest(db, id)
    const progress = found && toRequestProgress(found)
    if (progress?.state === 'started') return `/runs/${progress.run}`
    if (progress?.state === 'ended') break
    await sleep(CLAIM_POLL_MS)
  }
  return `/requests/${id}`
}

/** A request, which leads to its run as soon as there is one. */
export const requestPage: Page = {
  path: '/requests/:id',
  show: async (request, deps) => {
    const found = await requireRequest(request, deps)
    const progress = toRequestProgress(found)
    if (progress.state === 'started') return { redirect: `/runs/${progress.run}` }
    const isWaiting = progress.state === 'waiting'
    return {
      title: 'Requested run',
      ...(isWaiting && { refreshSeconds: 2 }),
      body: html`<h1>Requested run</h1>
        ${isWaiting && (await daemonNotice(deps.db))}
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
            ...describePass(found.work),
            ['Requested', html`${timeAgo(found.requested_at, Date.now())}, by ${found.by}`],
          ])}
        </section>
        <p class="choices">
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
