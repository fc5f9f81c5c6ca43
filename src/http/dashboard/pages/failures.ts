import { formatCount, pluralize } from '../../../util/format.ts'
import { FAILED_ROW_STATES, FAILURE_ADVICE, FAILURE_STATES } from '../../../domain/row.ts'
import { listValues, type SkippedGroup } from '../../../domain/skipped-cell.ts'
import type { FailureReason } from '../../../store/failures.ts'
import { type Html, type HtmlPart, buildUrl, html } from '../html.ts'
import {
  card,
  clamped,
  countLink,
  dataTable,
  empty,
  pageHead,
  stateBadge,
  withCode,
  nameText,
} from '../components.ts'

/** Skipped cells listed beside a run; of the others, only the cells are counted. */
const MAX_GROUPS = 12

/** Why rows were not enriched, and why cells were skipped. */
export function failuresPage(
  reasons: readonly FailureReason[],
  skipped: readonly SkippedGroup[],
  filter: {
    readonly source: string | null
    readonly sources: readonly string[]
    /** Whether the page offers actions. */
    readonly canAct: boolean
  },
): Html {
  const total = reasons.reduce((sum, one) => sum + one.rows, 0)
  return html`${pageHead('Failures', sourceFilter(filter))}
  ${card('reasons', 'Rows not enriched, by reason', total === 0 ? empty('No failed rows.') : [html`<p class="sub">${pluralize(total, 'row')} for ${pluralize(reasons.length, 'reason')}</p>`, reasonsTable(reasons, { isSourceShown: filter.source === null, canAct: filter.canAct })], filter.canAct && retryLink(reasons, { source: filter.source }))}
  ${total > 0 && card('advice', 'What happens next', adviceList(reasons))}
  ${card('skipped', 'Skipped cells', skipped.length === 0 ? empty('No value was skipped: each was written, or its cell had one already.') : skippedCellsTable(skipped, skipped.length))}`
}

/** A choice of one source; without scripts, it needs its button. */
const sourceFilter = ({ source, sources }: { source: string | null; sources: readonly string[] }): HtmlPart =>
  sources.length > 1 &&
  html`<form class="inline" action="/failures">
    <label
      >Source
      <select name="source">
        <option value="">all</option>
        ${sources.map((name) => html`<option${name === source && html` selected`}>${name}</option>`)}
      </select></label
    >
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
  html`<dl class="fields">
    ${FAILURE_STATES.filter((state) => reasons.some((one) => one.state === state)).map(
      (state) =>
        html`<div>
          <dt>${stateBadge(state)}</dt>
          <dd>${withCode(FAILURE_ADVICE[state])}</dd>
        </div>`,
    )}
  </dl>`

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
