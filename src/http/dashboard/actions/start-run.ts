import { lookupBudgetOf } from '../../../config/config.ts'
import type { Plan } from '../../../actions/plan/plan.ts'
import { describeBeyondBudget, describeCost, formatPlanTime } from '../../../actions/plan/report.ts'
import type { PassRequest } from '../../../actions/validate-request.ts'
import type { RequestedRun } from '../../../domain/requested-run.ts'
import { insertAuditEvent } from '../../../store/audit.ts'
import type { Database } from '../../../store/open.ts'
import * as pauses from '../../../store/source-state.ts'
import { listProcesses } from '../../../store/processes.ts'
import { inTransaction } from '../../../store/transaction.ts'
import { insertRequest } from '../../../store/scheduled-runs.ts'
import { formatCount, pluralize } from '../../../util/format.ts'
import { card, definitionList, nameText, withCode } from '../components.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import type { DashboardDeps } from '../dashboard-app.ts'
import { type Page, PageRefused } from '../page.ts'
import { type ActionRequest, defineAction, previewSignal, previewWithin, requireApp } from './action.ts'
import { formatBudget, parsePassForm, passForm, type PassProblems } from './pass-form.ts'

/** The form of a run. */
export const startPage: Page = {
  path: '/runs/new',
  within: '/runs',
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
          ${card('request', 'The run', definitionList(describePass(pass)))}
          ${plan !== null && card('plan', 'What it requests and picks', [leftOutNotice(plan.left_out), definitionList(planFields(plan))])}
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

/** What a run would request and pick. */
const planFields = (plan: Plan): ReadonlyArray<readonly [string, HtmlPart]> => [
  ['Lookups', html`<b class="figure">${plan.lookups.is_estimate && 'about '}${describeCost(plan.cost)}</b>`],
  ['Beyond the budget', describeBeyondBudget(plan.cost)],
  ['API calls', plan.calls.total === 0 ? 'none' : formatCount(plan.calls.total)],
  ['Time', plan.calls.total === 0 ? null : formatPlanTime(plan.time)],
  ...plan.sources.map(({ source, rows, picked }): readonly [string, HtmlPart] => [
    source,
    `${formatCount(picked)} of ${pluralize(rows, 'row')} picked`,
  ]),
  ['Paused', plan.paused.length === 0 ? null : `the run skips ${plan.paused.join(', ')}`],
]

/** The sources that are left out because they are broken, and what to do about each. */
const leftOutNotice = (leftOut: Plan['left_out']): HtmlPart =>
  leftOut.map(
    ({ source, problem, mend }) =>
      html`<p class="notice warn">
        ${source} is left out: ${withCode(problem)}. <b>What to do:</b> ${withCode(mend)}
      </p>`,
  )

async function runForm(deps: DashboardDeps, query: URLSearchParams, problems: PassProblems): Promise<Html> {
  const paused = await pauses.filterPaused(deps.db, [...deps.sources().keys()])
  const sources = [...deps.sources().keys()].map((name) => ({ name, isPaused: paused.includes(name) }))
  return html`<h1>Start a run</h1>
    ${query.has('retried') && html`<p class="notice good" role="status">The rows are queued again. The next run of their source picks them; start it here, or leave it to the schedule.</p>`}
    ${await daemonNotice(deps.db)} ${passForm({ query, problems, sources, config: requireApp(deps).config })}`
}

/** @throws PageRefused with the form again, and what is wrong in it */
async function parsePass(deps: DashboardDeps, query: URLSearchParams): Promise<RequestedRun> {
  const app = requireApp(deps)
  const { pass, problems } = parsePassForm(query, [...deps.sources().keys()], lookupBudgetOf(app.config))
  if (pass === null) throw new PageRefused(422, 'Start a run', await runForm(deps, query, problems))
  await app.validate(toPassRequest(pass, previewSignal()))
  return pass
}

const toPassRequest = (pass: RequestedRun, signal: AbortSignal): PassRequest => ({
  ...pass,
  budget: pass.budget ?? 'unlimited',
  signal,
})

const describePass = (pass: RequestedRun): ReadonlyArray<readonly [string, HtmlPart]> => [
  ['Sources', pass.sources.map((name, n) => [n > 0 && ', ', nameText(name)])],
  ['Budget', formatBudget(pass.budget)],
  ['Rows of each source', pass.limit === null ? 'all' : `at most ${formatCount(pass.limit)}`],
  ['Result', pass.isDryRun ? 'reported only, nothing is written' : 'written to the tables'],
]

/** Says so if no process would execute a run. Null if there is one. */
export async function daemonNotice(db: Database): Promise<Html | null> {
  if ((await listProcesses(db)).some(({ role, isAlive }) => role === 'start' && isAlive)) return null
  return html`<p class="notice warn" role="status">
    <b>No daemon is running.</b> Runs are executed by <code>fillrate start</code>; this process only receives
    and shows. A run that you request now starts when a daemon does, and is dropped after an hour.
  </p>`
}

/** Stores a request, which a daemon takes within a second. @returns the page that then lists its run */
async function requestRun(
  deps: DashboardDeps,
  { requestId: id, actor }: ActionRequest,
  work: RequestedRun,
): Promise<string> {
  const service = await requireApp(deps).service()
  await inTransaction(deps.db, async (tx) => {
    const isNew = await insertAuditEvent(tx, { actor, requestId: id, action: 'run', parameters: { ...work } })
    if (isNew !== null) await insertRequest(tx, { id, work, by: actor.name }, service)
  })
  return '/runs?requested=1'
}
