import { type Config, lookupBudgetOf } from '../../../config/config.ts'
import type { RequestedRun } from '../../../domain/requested-run.ts'
import type { LookupBudget } from '../../../domain/spend.ts'
import { formatCount } from '../../../util/format.ts'
import { badge, nameText } from '../components.ts'
import { html, type Html, type HtmlPart } from '../html.ts'

/** A problem of each field that has one. */
export type PassProblems = Readonly<Partial<Record<'source' | 'limit' | 'budget', string>>>

/**
 * Parses the form of a run. Pure.
 * @param configuredBudget the budget of a run without another one
 * @returns the run, or what is wrong with which field
 */
export function parsePassForm(
  query: URLSearchParams,
  configured: readonly string[],
  configuredBudget: LookupBudget | null,
): { readonly pass: RequestedRun | null; readonly problems: PassProblems } {
  const names = [...new Set(query.getAll('source'))]
  const unknown = names.filter((name) => !configured.includes(name))
  const limit = parseCount(query.get('limit'), 1)
  const budgetText = (query.get('budget') ?? '').trim()
  const budget = budgetText === '' ? configuredBudget : parseBudget(budgetText)
  const problems: PassProblems = {
    ...(names.length === 0 && { source: 'Choose at least one source.' }),
    ...(unknown.length > 0 && { source: `The configuration has no source ${unknown.join(', ')}.` }),
    ...(limit === undefined && { limit: 'Expected a whole number from 1, or nothing for all rows.' }),
    ...(budget === undefined && { budget: 'Expected a whole number of lookups, or “unlimited”.' }),
    ...(budget === null && {
      budget: 'A run needs a budget: a whole number of lookups, or “unlimited”.',
    }),
  }
  if (Object.keys(problems).length > 0 || limit === undefined || budget === undefined || budget === null)
    return { pass: null, problems }
  const pass: RequestedRun = {
    sources: names,
    limit,
    budget: budget === 'unlimited' ? null : budget,
    where: null,
    route: 'auto',
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
  readonly config: Config
}

const CHECKED = html` checked`

/** The form of a run, with what was entered before. */
export function passForm(view: PassFormView): Html {
  const budget = lookupBudgetOf(view.config)
  const help =
    budget === null ? '“unlimited” sets no limit.' : `The configuration has ${formatBudget(budget)}.`
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
    <label class="box"
      ><input type="checkbox" name="dry" value="1" ${view.query.get('dry') === '1' && CHECKED} />
      <span>Dry run: look up and store the records, and only report what would be written</span></label
    >
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

export const formatBudget = (budget: LookupBudget | null): string =>
  budget === null || budget === 'unlimited' ? 'no limit' : `${formatCount(budget)} lookups`

/** @param otherwise what it holds before anything was entered */
function textField(
  { query, problems }: PassFormView,
  name: 'limit' | 'budget',
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
      inputmode="numeric"
      autocomplete="off"
      spellcheck="false"
      aria-describedby="${describedBy}"
      ${problem !== undefined && html` aria-invalid="true"`}
    />
    ${fault(name, problem)}
    <p id="${name}-help" class="sub">${help}</p>
  </div>`
}

const fault = (name: string, problem: string | undefined): Html | false =>
  problem !== undefined && html`<p id="${name}-fault" class="fault">${problem}</p>`
