import { FAILED_ROW_STATES } from '../../../domain/row.ts'
import { listValues, type SkippedGroup } from '../../../domain/skipped-cell.ts'
import type { FailureReason } from '../../../store/failures.ts'
import { formatCount, pluralize } from '../../../util/format.ts'
import { clamped, countLink, dataTable, nameText, stateBadge, withCode } from '../components.ts'
import { type Html, type HtmlPart, buildUrl, html } from '../html.ts'

/** Skipped cells that are listed; of the others, only the cells are counted. */
const MAX_GROUPS = 12

const isRetryable = (state: string): boolean => (FAILED_ROW_STATES as readonly string[]).includes(state)

/** Leads to retrying what can be retried of these; nothing if nothing can. */
export const retryLink = (
  reasons: ReadonlyArray<Pick<FailureReason, 'state'>>,
  filter: { readonly source: string | null; readonly state?: string | null; readonly reason?: string | null },
): HtmlPart =>
  reasons.some(({ state }) => isRetryable(state)) &&
  html`<a class="button" href="${buildUrl('/retry', filter)}">Retry</a>`

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
        cell: ({ source, state, reason, rows, isPartial }) => [
          isPartial && 'at least ',
          countLink(rows, buildUrl('/rows', { source, state, reason })),
        ],
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
export function skippedCellsTable(groups: readonly SkippedGroup[]): Html {
  const rest = groups.slice(MAX_GROUPS)
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
      groups.slice(0, MAX_GROUPS),
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
