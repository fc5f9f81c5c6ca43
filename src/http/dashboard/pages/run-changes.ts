import type { SourceMapping } from '../../../domain/mapping.ts'
import type { RunChange } from '../../../store/run-history.ts'
import type { StoredRun } from '../../../store/runs.ts'
import { breakable, card, clockTime, dataTable, empty, nameText, pageLinks } from '../components.ts'
import { hiddenPart, html, type Html, rowUrl } from '../html.ts'
import { displayValue } from './row.ts'

/** One page of what a run has written. */
export interface RunChangesData {
  readonly run: StoredRun & { readonly alive: boolean }
  readonly changes: readonly RunChange[]
  /** The id before the first one of the page; 0: the first page. */
  readonly after: number
  readonly hasMore: boolean
  readonly sources: ReadonlyMap<string, SourceMapping>
}

/** What it has written, with the values before and after. */
export function changesSection({ run, changes, after, hasMore, sources }: RunChangesData): Html {
  if (run.options.dry === true) return hiddenPart('changes')
  const last = changes.at(-1)
  return card(
    'changes',
    'Rows written',
    changes.length === 0
      ? empty(after > 0 ? 'No more.' : run.alive ? 'Nothing yet.' : 'It has written nothing.')
      : [
          dataTable<RunChange>(
            'Values before and after',
            [
              {
                name: 'row',
                kind: 'row',
                cell: (change) =>
                  html`<a href="${rowUrl(change)}">${nameText(change.key)}</a
                    >${run.sources.length > 1 && html` <span class="soft">${breakable(change.source)}</span>`}`,
              },
              { name: 'written', cell: ({ writtenAt }) => clockTime(writtenAt) },
              {
                name: 'before → after',
                kind: 'text',
                cell: (change) => cellChanges(change, sources.get(change.source)),
              },
            ],
            changes,
          ),
          pageLinks(
            after > 0 ? `/runs/${run.id}#changes` : null,
            hasMore && last !== undefined ? `/runs/${run.id}?after=${last.id}#changes` : null,
          ),
          !run.alive && html`<p class="sub"><code>fillrate undo ${run.id}</code> undoes the run.</p>`,
        ],
  )
}

/** What a write changed. Of columns that are only touched, such as `updated_at`, the names alone. */
function cellChanges({ before, after, isUndone }: RunChange, source: SourceMapping | undefined): Html {
  const columns = Object.keys(after)
  const touched =
    source === undefined
      ? []
      : columns.filter((name) => !source.outputs.some(({ column }) => column === name))
  return html`<ul class="diff">
    ${columns
      .filter((column) => !touched.includes(column))
      .map(
        (column) =>
          html`<li>
            <span class="soft">${breakable(column)}</span> ${displayValue(before[column])} →
            ${isUndone ? html`<s>${displayValue(after[column])}</s>` : html`<strong>${displayValue(after[column])}</strong>`}
          </li>`,
      )}
    ${touched.length > 0 && html`<li class="soft">touched: ${touched.join(', ')}</li>`}
    ${isUndone && html`<li class="soft">undone since, in all cells or some</li>`}
  </ul>`
}
