import { type Config, lookupBudgetOf } from '../../../config/config.ts'
import type { RequestedRun } from '../../../domain/requested-run.ts'
import type { RouteOption } from '../../../domain/route.ts'
import type { LookupBudget } from '../../../domain/spend.ts'
import { formatCount } from '../../../util/format.ts'
import { badge, nameText } from '../components.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import type { Actions } from '../../../actions/actions.ts'

const ROUTES: Readonly<Record<RouteOption, string>> = {
  auto: 'automatic: bulk for many lookups',
  sync: 'one call a lookup',
  bulk: 'lookups in bulk jobs',
}

/** The budget without another one, and whether a run may have a condition in SQL. */
type FormConfig = Pick<Config, 'dashboard'> & { readonly budget: LookupBudget | null }

/** A problem of each field that has one. */
export type PassProblems = Readonly<Partial<Record<'source' | 'limit' | 'budget' | 'where', string>>>

/**
 * Parses the form of a run. Pure.
 * @returns the run, or what is wrong with which field
 */
export function parsePassForm(
  query: URLSearchParams,
  configured: readonly string[],
  config: FormConfig,
): { readonly pass: RequestedRun | null; readonly problems: PassProblems } {
  const names = [...new Set(query.getAll('source'))]
  const unknown = names.filter((name) => !configured.includes(name))
  const limit = parseCount(query.get('limit'), 1)
  const budgetText = (query.get('budget') ?? '').trim()
  const budget = budgetText === '' ? config.budget : parseBudget(budgetText)
  const where = (query.get('where') ?? '').trim() || null
  const route = (Object.keys(ROUTES) as RouteOption[]).find((one) => one === query.get('route')) ?? 'auto'
  const problems: PassProblems = {
    ...(names.length === 0 && { source: 'Choose at least one source.' }),
    ...(unknown.length > 0 && { source: `The configuration has no source ${unknown.join(', ')}.` }),
    ...(limit === undefined && { limit: 'Expected a whole number from 1, or nothing for all rows.' }),
    ...(budget === undefined && { budget: 'Expected a whole number of lookups, or “unlimited”.' }),
    ...(budget === null && {
      budget: 'A run needs a budget: a whole number of lookups, or “unlimited”.',
    }),
    ...(where !== null && !config.dashboard.allowWhere && { where: 'Conditions are not allowed here.' }),
  }
  if (Object.keys(problems).length > 0 || limit === undefined || budget === undefined || budget === null)
    return { pass: null, problems }
  const pass: RequestedRun = {
    sources: names,
    limit,
    budget: budget === 'unlimited' ? null : budget,
    where,
    route,
    isDryRun: query.get('dry') === '1',
  }
  return { pass, problems }
}

/** Null if empty; undefined if invalid. */
function parseCount(text: string | null, min: number): number | null | undefined {
  const digits = (text ?? '').trim().replaceAll(/[,_\s]/g, '')
  if (digits === '') return null
  const count = /^\d+$/.test(digits) ? Number(digits) : Number.NaN
  return Number.isSafeInteger(count) && count >= min ? count : undefined
}

const parseBudget = (text: string): LookupBudget | null | undefined =>
  text.toLowerCase() === 'unlimited' ? 'unlimited' : parseCount(text, 0)

interface PassFormView {
  readonly query: URLSearchParams
  readonly problems: PassProblems
  readonly sources: readonly { readonly name: string; readonly isPaused: boolean }[]
  readonly app: Pick<Actions, 'bulkOf' | 'config'>
}

const CHECKED = html` checked`
const SELECTED = html` selected`
const DISABLED = html` disabled`

/** The form of a run, with what was entered before. */
export function passForm(view: PassFormView): Html {
  const { dashboard } = view.app.config
  const budget = lookupBudgetOf(view.app.config)
  const help =
    budget === null ? '“unlimited” sets no limit.' : `The configuration has ${formatBudget(budget)}.`
  const isDry = view.query.get('dry') === '1'
  return html`<form class="card run-form" action="/runs/start">
    ${sourceBoxes(view)}
    <div class="fields-row">
      ${textField(
        view,
        'budget',
        'Budget, in lookups',
        `The run stops when it has requested this many. ${help}`,
        String(budget ?? ''),
      )}
      ${textField(view, 'limit', 'Rows of each source', 'Empty: all rows that lack data.')}
    </div>
    ${routeField(view)}
    ${
      dashboard.allowWhere &&
      textField(
        view,
        'where',
        'Only rows where (SQL)',
        html`A condition over the source, whose table is <code>t</code>: <code>t.country = 'NO'</code>`,
      )
    }
    <fieldset>
      <legend>Result</legend>
      <label class="box"
        ><input type="radio" name="dry" value="0" ${!isDry && CHECKED} />
        <span>Write it to the tables</span></label
      >
      <label class="box"
        ><input type="radio" name="dry" value="1" ${isDry && CHECKED} />
        <span>Dry run: look up and store the records, and only report what would be written</span></label
      >
    </fieldset>
    <p class="choices">
      <button>Preview</button>
      <a class="button" href="/">Cancel</a>
      <span class="sub">Nothing is called before you confirm.</span>
    </p>
  </form>`
}

function sourceBoxes({ query, problems, sources }: PassFormView): Html {
  const chosen = query.getAll('source')
  const isChosen = (name: string): boolean => chosen.includes(name) || sources.length === 1
  return html`<fieldset aria-describedby="${problems.source === undefined ? '' : 'source-fault'}">
    <legend>Sources</legend>
    <div class="boxes">
      ${sources.map(
        ({ name, isPaused }) =>
          html`<label class="box">
            <input type="checkbox" name="source" value="${name}" ${isChosen(name) && CHECKED} />
            <span>${nameText(name)} ${isPaused && badge('paused', 'warn')}</span>
          </label>`,
      )}
    </div>
    ${fault('source', problems.source)}
  </fieldset>`
}

function routeField({ query, app }: PassFormView): Html {
  const bulk = app.bulkOf([])
  const route = query.get('route') ?? 'auto'
  return html`<div class="field">
    <label for="route">Route</label>
    <select id="route" name="route" ${!bulk.isPossible && html` aria-describedby="route-help"`}>
      ${Object.entries(ROUTES).map(
        ([value, text]) =>
          html`<option
            value="${value}"
            ${value === route && SELECTED}${value === 'bulk' && !bulk.isPossible && DISABLED}
          >
            ${text}
          </option>`,
      )}
    </select>
    ${!bulk.isPossible && html`<p id="route-help" class="sub">Bulk is off${bulk.todo === null ? `: ${bulk.reason}` : `. To enable it, ${bulk.todo}`}.</p>`}
  </div>`
}

export const formatBudget = (budget: LookupBudget | null): string =>
  budget === null || budget === 'unlimited' ? 'no limit' : `${formatCount(budget)} lookups`

/** @param otherwise what it holds before anything was entered */
function textField(
  { query, problems }: PassFormView,
  name: 'limit' | 'budget' | 'where',
  label: string,
  help: HtmlPart,
  otherwise = '',
): Html {
  const problem = problems[name]
  const describedBy = problem === undefined ? `${name}-help` : `${name}-fault ${name}-help`
  return html`<div class="field">
    <label for="${name}">${label}</label>
    <input
      id="${name}"
      name="${name}"
      value="${query.get(name) ?? otherwise}"
      autocomplete="off"
      spellcheck="false"
      aria-describedby="${describedBy}"
      ${problem !== undefined && html` aria-invalid="true"`}${name !== 'where' && html` inputmode="numeric"`}
    />
    ${fault(name, problem)}
    <p id="${name}-help" class="sub">${help}</p>
  </div>`
}

const fault = (name: string, problem: string | undefined): Html | false =>
  problem !== undefined && html`<p id="${name}-fault" class="fault">${problem}</p>`
