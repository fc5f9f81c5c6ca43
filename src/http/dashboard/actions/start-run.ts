import type { Plan } from '../../../domain/report/plan.ts'
import { lookupBudgetOf, type Config } from '../../../config/config.ts'
import { describeBeyondBudget, describeCost, formatPlanTime } from '../../../actions/plan/report.ts'
import type { PassRequest } from '../../../actions/validate-request.ts'
import type { RunSpec } from '../../../domain/run.ts'
import { insertAuditEvent } from '../../../store/audit.ts'
import type { Database } from '../../../store/open.ts'
import { listProcesses } from '../../../store/processes.ts'
import { inTransaction } from '../../../store/transaction.ts'
import { insertRequest } from '../../../store/scheduled-runs.ts'
import { formatCount, pluralize } from '../../../util/text.ts'
import { card, definitionList, nameText, withCode } from '../components.ts'
import { html, type Markup, type HtmlPart } from '../html.ts'
import { PageRefused, requireRun, type DashboardDeps, type Page } from '../page.ts'
import { defineAction, previewSignal, previewWithin, requireApp, type ActionRequest } from './action.ts'
import type { LookupBudget } from '../../../domain/spend.ts'
import { auditActionOnce } from '../../../actions/audit.ts'
import { cancelRun, describeCancelled } from '../../../actions/cancel.ts'

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
      title: 'Start this run?',
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
      button: 'Start the run',
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

async function runForm(deps: DashboardDeps, query: URLSearchParams, problems: PassProblems): Promise<Markup> {
  const sources = Object.keys(deps.config.sources)
  return html`<h1>Start a run</h1>
    ${query.has('retried') && html`<p class="notice good" role="status">The rows are queued again. The next run of their source picks them; start it here, or leave it to the schedule.</p>`}
    ${await daemonNotice(deps.db)} ${passForm({ query, problems, sources, config: requireApp(deps).config })}`
}

/** @throws PageRefused with the form again, and what is wrong in it */
async function parsePass(deps: DashboardDeps, query: URLSearchParams): Promise<RunSpec> {
  const app = requireApp(deps)
  const { pass, problems } = parsePassForm(query, Object.keys(app.config.sources), lookupBudgetOf(app.config))
  if (pass === null) throw new PageRefused(422, 'Start a run', await runForm(deps, query, problems))
  await app.validate(toPassRequest(pass, previewSignal()))
  return pass
}

const toPassRequest = (pass: RunSpec, signal: AbortSignal): PassRequest => ({
  ...pass,
  budget: pass.budget ?? 'unlimited',
  signal,
})

const describePass = (pass: RunSpec): ReadonlyArray<readonly [string, HtmlPart]> => [
  ['Sources', pass.sources.map((name, n) => [n > 0 && ', ', nameText(name)])],
  ['Budget', formatBudget(pass.budget)],
]

/** Says so if no process would execute a run. Null if there is one. */
export async function daemonNotice(db: Database): Promise<Markup | null> {
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
  work: RunSpec,
): Promise<string> {
  const service = await requireApp(deps).service()
  await inTransaction(deps.db, async (tx) => {
    const isNew = await insertAuditEvent(tx, { actor, requestId: id, action: 'run', parameters: { ...work } })
    if (isNew !== null) await insertRequest(tx, { id, work, by: actor.name }, service)
  })
  return '/runs?requested=1'
}

/** A problem of each field that has one. */
type PassProblems = Readonly<Partial<Record<'source' | 'budget', string>>>

/**
 * Parses the form of a run. Pure.
 * @param configuredBudget the budget of a run without another one
 * @returns the run, or what is wrong with which field
 */
export function parsePassForm(
  query: URLSearchParams,
  configured: readonly string[],
  configuredBudget: LookupBudget | null,
): { readonly pass: RunSpec | null; readonly problems: PassProblems } {
  const names = [...new Set(query.getAll('source'))]
  const unknown = names.filter((name) => !configured.includes(name))
  const budgetText = (query.get('budget') ?? '').trim()
  const budget = budgetText === '' ? configuredBudget : parseBudget(budgetText)
  const problems: PassProblems = {
    ...(names.length === 0 && { source: 'Choose at least one source.' }),
    ...(unknown.length > 0 && { source: `The configuration has no source ${unknown.join(', ')}.` }),
    ...(budget === undefined && { budget: 'Expected a whole number of lookups, or “unlimited”.' }),
    ...(budget === null && {
      budget: 'A run needs a budget: a whole number of lookups, or “unlimited”.',
    }),
  }
  if (Object.keys(problems).length > 0 || budget === undefined || budget === null)
    return { pass: null, problems }
  const pass: RunSpec = {
    sources: names,
    limit: null,
    budget: budget === 'unlimited' ? null : budget,
    where: null,
    route: 'auto',
  }
  return { pass, problems }
}

/** Undefined if invalid. */
function parseBudget(text: string): LookupBudget | undefined {
  if (text.toLowerCase() === 'unlimited') return 'unlimited'
  const digits = text.replaceAll(/[,_\s]/g, '')
  const count = /^\d+$/.test(digits) ? Number(digits) : Number.NaN
  return Number.isSafeInteger(count) ? count : undefined
}

interface PassFormView {
  readonly query: URLSearchParams
  readonly problems: PassProblems
  readonly sources: readonly string[]
  readonly config: Config
}

/** The form of a run, with what was entered before. */
function passForm(view: PassFormView): Markup {
  return html`<form class="card run-form" action="/runs/start">
    ${sourceBoxes(view)} ${budgetField(view)}
    <p class="choices">
      <button>Preview</button>
      <a class="button" href="/">Cancel</a>
      <span class="sub">Nothing is called before you confirm.</span>
    </p>
  </form>`
}

function sourceBoxes({ query, problems, sources }: PassFormView): Markup {
  const chosen = query.getAll('source')
  const isChosen = (name: string): boolean => chosen.includes(name) || sources.length === 1
  return html`<fieldset aria-describedby="${problems.source === undefined ? '' : 'source-fault'}">
    <legend>Sources</legend>
    <div class="boxes">
      ${sources.map(
        (name) =>
          html`<label class="box">
            <input type="checkbox" name="source" value="${name}" ${isChosen(name) && html` checked`} />
            <span>${nameText(name)}</span>
          </label>`,
      )}
    </div>
    ${fault('source', problems.source)}
  </fieldset>`
}

const formatBudget = (budget: LookupBudget | null): string =>
  budget === null || budget === 'unlimited' ? 'no limit' : `${formatCount(budget)} lookups`

function budgetField({ query, problems, config }: PassFormView): Markup {
  const configured = lookupBudgetOf(config)
  const help =
    configured === null ? '“unlimited” sets no limit.' : `The configuration has ${formatBudget(configured)}.`
  const problem = problems.budget
  return html`<div class="field">
    <label for="budget">Budget, in lookups</label>
    <input
      id="budget"
      name="budget"
      value="${query.get('budget') ?? String(configured ?? '')}"
      inputmode="numeric"
      autocomplete="off"
      spellcheck="false"
      aria-describedby="${problem === undefined ? 'budget-help' : 'budget-fault budget-help'}"
      ${problem !== undefined && html` aria-invalid="true"`}
    />
    ${fault('budget', problem)}
    <p id="budget-help" class="sub">The run stops when it has requested this many. ${help}</p>
  </div>`
}

const fault = (name: string, problem: string | undefined): Markup | false =>
  problem !== undefined && html`<p id="${name}-fault" class="fault">${problem}</p>`

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
      () => cancelRun(db, run, actor.name),
      describeCancelled,
    ),
})
