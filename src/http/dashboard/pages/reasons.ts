import { FAILED_ROW_STATES } from '../../../domain/row.ts'
import type { FailureReason } from '../../../store/row-search.ts'
import { card, clamped, empty, countLink, dataTable, nameText, stateBadge } from '../components.ts'
import { buildUrl, html, type Markup, type HtmlPart } from '../html.ts'

const isRetryable = (state: string): boolean => (FAILED_ROW_STATES as readonly string[]).includes(state)

/** Leads to retrying what can be retried of these; nothing if nothing can. */
export const retryLink = (
  reasons: ReadonlyArray<Pick<FailureReason, 'state'>>,
  filter: { readonly source: string | null; readonly state?: string | null; readonly reason?: string | null },
): HtmlPart =>
  reasons.some(({ state }) => isRetryable(state)) &&
  html`<a class="button" href="${buildUrl('/retry', filter)}">Retry</a>`

/** Why rows are not enriched. @param source whose rows they are; null: of any */
export const reasonsCard = (
  reasons: readonly FailureReason[],
  source: string | null,
  canAct: boolean,
): Markup =>
  card(
    'reasons',
    'Not enriched, by reason',
    reasons.length === 0
      ? empty('No failed rows.')
      : reasonsTable(reasons, { isSourceShown: source === null, canAct }),
    canAct && retryLink(reasons, { source }),
  )

/** Failures by reason, most frequent first; each leads to its rows. */
const reasonsTable = (
  reasons: readonly FailureReason[],
  { isSourceShown, canAct }: { readonly isSourceShown: boolean; readonly canAct: boolean },
): Markup =>
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
