import { auditActionOnce } from '../../../actions/audit.ts'
import type { RetryReport } from '../../../actions/retry.ts'
import { FAILED_ROW_STATES, RETRY_STATES, formatState, type RetryState } from '../../../domain/row.ts'
import { formatCount, pluralize } from '../../../util/text.ts'
import { definitionList, empty } from '../components.ts'
import { buildUrl, html, type Markup } from '../html.ts'
import { defineAction, previewWithin, requireApp } from './action.ts'

/** Queues failed rows again: all, or those of a source, a state or a reason. */
export const retryAction = defineAction({
  path: '/retry',
  find: ({ query }) => parseRetryFilter(query),
  pageOf: rowsUrl,
  confirm: async (filter, deps) => {
    const preview = await previewWithin((signal) =>
      requireApp(deps).retry({ ...filter, dryRun: true, signal }),
    )
    const rows = preview?.rows ?? null
    return {
      title: 'Retry failed rows',
      body: [
        html`<p>
          Makes these rows due, so that the next run picks them. Nothing is called or written now: what
          follows is paid by a run, within its budget.
        </p>`,
        definitionList([
          ['Sources', filter.sources.join(', ') || 'all'],
          ['States', filter.states.map((state) => formatState(state)).join(', ')],
          ['Reason contains', filter.reason],
        ]),
        preview === null
          ? empty('There are too many rows to count here.')
          : rows === 0
            ? empty('No row has failed in this way: there is nothing to retry.')
            : retryPreview(preview),
      ],
      button: rows === 0 ? null : rows === null ? 'Queue these rows' : `Queue ${pluralize(rows, 'row')}`,
    }
  },
  perform: async (filter, { actor, requestId }, deps) => {
    const { sources, states, reason } = filter
    await auditActionOnce(
      deps.db,
      { actor, requestId, action: 'retry', parameters: { sources, states, reason } },
      () => requireApp(deps).retry({ ...filter, dryRun: false, signal: new AbortController().signal }),
      (report) => ({ outcome: 'done', detail: `${pluralize(report.rows, 'row')} queued` }),
    )
    return buildUrl('/runs/new', { retried: '1', source: sources[0] ?? null })
  },
})

interface RetryChoice {
  readonly sources: readonly string[]
  readonly states: readonly RetryState[]
  readonly reason: string | null
}

/** Pure. Unknown states are left out; none of them means the failed ones. */
export function parseRetryFilter(query: URLSearchParams): RetryChoice {
  const states = RETRY_STATES.filter((state) => query.getAll('state').includes(state))
  return {
    sources: query.getAll('source').filter((name) => name !== ''),
    states: states.length === 0 ? FAILED_ROW_STATES : states,
    reason: query.get('reason') || null,
  }
}

function retryPreview({ rows, lookups, without_call: withoutCall, skipped }: RetryReport): Markup {
  return definitionList([
    ['Rows', formatCount(rows)],
    ['Looked up again', pluralize(lookups, 'lookup')],
    ['Written from the stored record', withoutCall === 0 ? null : pluralize(withoutCall, 'row')],
    ['Left out', skipped === 0 ? null : `${pluralize(skipped, 'row')}: deleted, or complete by now`],
  ])
}

function rowsUrl({ sources, states, reason }: RetryChoice): string {
  const state = states.length === 1 ? states[0] : 'not_enriched'
  return buildUrl('/rows', { source: sources[0], state, reason })
}
