import { formatCount, pluralize } from '../../../util/format.ts'
import { FAILED_ROW_STATES, FAILURE_ADVICE, FAILURE_STATES } from '../../../domain/row.ts'
import { listValues, type SkippedGroup } from '../../../domain/skipped-cell.ts'
import { toSourceFilter } from '../../../actions/dashboard-data.ts'
import { countFailureReasons, type FailureReason } from '../../../store/failures.ts'
import { groupSkippedCells } from '../../../store/skipped-cells.ts'
import { type Html, type HtmlPart, buildUrl, html } from '../html.ts'
import type { Page } from '../page.ts'
import {
  card,
  clamped,
  countLink,
  dataTable,
  definitionList,
  empty,
  pageHead,
  selectField,
  stateBadge,
  withCode,
  nameText,
} from '../components.ts'

/** Skipped cells listed beside a run; of the others, only the cells are counted. */
const MAX_GROUPS = 12

/** Why rows were not enriched, and why cells were skipped. */
export const failuresPage: Page = {
  path: '/failures',
  name: 'Failures',
  show: async ({ query, canAct }, { db, sources }) => {
    const names = [...sources().keys()]
    const source = names.find((name) => name === query.get('source')) ?? null
    const about = { source: source ?? toSourceFilter(sources()) }
    const reasons = await countFailureReasons(db, { ...about, states: null })
    const skipped = await groupSkippedCells(db, about)
    const total = reasons.reduce((sum, one) => sum + one.rows, 0)
    return {
      body: html`${pageHead('Failures', sourceFilter(source, names))}
      ${card('reasons', 'Rows not enriched, by reason', total === 0 ? empty('No failed rows.') : [html`<p class="sub">${pluralize(total, 'row')} for ${pluralize(reasons.length, 'reason')}</p>`, reasonsTable(reasons, { isSourceShown: source === null, canAct })], canAct && retryLink(reasons, { source }))}
      ${total > 0 && card('advice', 'What happens next', adviceList(reasons))}
      ${card('skipped', 'Skipped cells', skipped.length === 0 ? empty('No value was skipped: each was written, or its cell had one already.') : skippedCellsTable(skipped, skipped.length))}`,
    }
  },
}

/** A choice of one source; without scripts, it needs its button. */
const sourceFilter = (source: string | null, sources: readonly string[]): HtmlPart =>
  sources.length > 1 &&
  html`<form class="inline" action="/failures">
    ${selectField('source', 'Source', source, [['', 'all'], ...sources.map((name) => [name, name] as const)])}
    <button class="quiet-button">Show</button>
  </form>`

const isRetryable = (state: string): boolean => (FAILED_ROW_STATES as readonly string[]).includes(state)

/** Leads to retrying what can be retried of these; nothing if nothing can. */
export const retryLink = (
  reasons: ReadonlyArray<Pick<FailureReason, 'state'>>,
  filter: { readonly source: string | null; readonly state?: string | null; readonly reason?: string | null },
): HtmlPart =>
  reasons.some(({ state }) => isRetryable(state)) &&
  html`<a class="button" href="${buildUrl('/retry', filter)}">Retry</a>`

const adviceList = (reasons: readonly FailureReason[]): Html =>
  definitionList(
    FAILURE_STATES.filter((state) => reasons.some((one) => one.state === state)).map(
      (state) => [stateBadge(state), withCode(FAILURE_ADVICE[state])] as const,
    ),
  )

/** Failures by reason, most frequent first; each leads to its rows. */
export const reasonsTable = (
  reasons: readonly FailureReason[],
  { isSourceShown, canAct }: { readonly isSourceShown: boolean; readonly canAct: boolean },
): Html =>
  dataTable<FailureReason>(
    'Reasons why rows were not enriched',
    [
      {
        name: 'rows',
        kind: 'number',
        cell: ({ source, state, reason, rows }) =>
          countLink(rows, buildUrl('/rows', { source, state, reason })),
      },
      {
        name: 'reason',
        kind: 'text',
        cell: ({ source, state, reason }) =>
          clamped(reason === '' ? 'no reason given' : reason, buildUrl('/rows', { source, state, reason })),
      },
      { name: 'state', cell: ({ state }) => stateBadge(state) },
      isSourceShown && { name: 'source', cell: ({ source }) => nameText(source) },
      reasons.some(({ service }) => service !== undefined) && {
        name: 'service',
        cell: ({ service = '' }) => nameText(service),
      },
      canAct &&
        reasons.some(({ state }) => isRetryable(state)) && {
          name: 'action',
          cell: ({ source, state, reason }) => retryLink([{ state }], { source, state, reason }),
        },
    ],
    reasons,
  )

/** Values that were not written to their cells, by reason: the most frequent first. */
export function skippedCellsTable(groups: readonly SkippedGroup[], max = MAX_GROUPS): Html {
  const rest = groups.slice(max)
  return html`${dataTable<SkippedGroup>(
      'Skipped cells',
      [
        { name: 'cells', kind: 'number', cell: (group) => formatCount(group.rows) },
        { name: 'column', cell: (group) => nameText(group.column) },
        { name: 'reason', kind: 'text', cell: (group) => withCode(group.description) },
        groups.some((group) => group.values.length > 0) && {
          name: 'values',
          kind: 'text',
          cell: (group) => listValues(group, valueText),
        },
        { name: 'source', cell: (group) => nameText(group.source) },
      ],
      groups.slice(0, max),
    )}
    <p class="sub">
      ${
        rest.length > 0 &&
        `and ${pluralize(
          rest.reduce((sum, group) => sum + group.rows, 0),
          'cell',
        )} for ${pluralize(rest.length, 'rarer reason')}; `
      }<code>fillrate failures --csv FILE</code> lists each cell.
    </p>`
}

const MAX_VALUE_LENGTH = 60

function valueText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH - 1)}…` : text
}
