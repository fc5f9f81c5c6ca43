import { isObject } from '../../../domain/json.ts'
import { ROW_STATES } from '../../../domain/row.ts'
import type { SkippedGroup } from '../../../domain/skipped-cell.ts'
import type { RunReport } from '../../../runs/report.ts'
import type { RowStateCounts } from '../../../store/rows.ts'
import { formatCount, formatMoney, formatPercent } from '../../../util/format.ts'
import { card, dataTable, definitionList, empty, stateBadge } from '../components.ts'
import { type Html, type HtmlPart, html } from '../html.ts'
import { readServiceTotals, readTotal, type ServiceTotals } from '../../../domain/run.ts'

// The report of a run, as it is stored. Another version may have stored another shape.

/** The numbers of a run's report. @param totals null: it has not ended */
export const numbersSection = (totals: unknown): Html =>
  card(
    'numbers',
    'Lookups, calls and cells',
    totals === null
      ? empty('Counted when the run ends.')
      : html`<div class="totals">
            ${TOTALS.map(([name, fields]) => {
              const shown = fields.map(
                ([label, part, field]) => [label, totalText(totals, part, field)] as const,
              )
              return (
                shown.some(([, value]) => value !== null) &&
                html`<div>
                  <h3>${name}</h3>
                  ${definitionList(shown)}
                </div>`
              )
            })}
          </div>
          ${servicesTable(readServiceTotals(totals))}`,
  )

/** What each of several services did. */
const servicesTable = (services: readonly ServiceTotals[]): HtmlPart =>
  services.length > 0 &&
  html`<h3>Services</h3>
    ${dataTable<ServiceTotals>(
      'Services of the run',
      [
        { name: 'service', kind: 'row', cell: ({ service }) => service },
        { name: 'state', cell: ({ status }) => stateBadge(status) },
        { name: 'requested', kind: 'number', cell: ({ lookups }) => formatCount(lookups.requested) },
        { name: 'found', kind: 'number', cell: ({ lookups }) => formatCount(lookups.found) },
        { name: 'cells', kind: 'number', cell: ({ cells }) => formatCount(cells.written) },
        { name: 'cost', kind: 'number', cell: ({ spend }) => spend.cost && formatMoney(spend.cost) },
      ],
      services,
    )}`

/** A label and the number of the report that it shows. */
type ReportTotal = {
  [Part in 'lookups' | 'requests' | 'rate' | 'jobs' | 'cells']: readonly [
    label: string,
    part: Part,
    field: string & keyof RunReport[Part],
  ]
}['lookups' | 'requests' | 'rate' | 'jobs' | 'cells']

const TOTALS: ReadonlyArray<readonly [name: string, fields: readonly ReportTotal[]]> = [
  [
    'Lookups',
    [
      ['Distinct', 'lookups', 'distinct'],
      ['Answered earlier', 'lookups', 'stored'],
      ['Requested', 'lookups', 'requested'],
      ['Found', 'lookups', 'found'],
      ['No match', 'lookups', 'not_found'],
      ['Rejected', 'lookups', 'rejected'],
      ['Failed', 'lookups', 'failed'],
      ['In doubt', 'lookups', 'in_doubt'],
    ],
  ],
  [
    'API calls',
    [
      ['For people', 'requests', 'person'],
      ['For companies', 'requests', 'company'],
      ['For bulk jobs', 'requests', 'bulk'],
      ['To be retried', 'requests', 'retried'],
      ['Throttled (429)', 'requests', 'throttled'],
      ['Rate limit used', 'rate', 'utilisation'],
    ],
  ],
  [
    'Jobs',
    [
      ['Submitted', 'jobs', 'submitted'],
      ['Completed', 'jobs', 'completed'],
      ['Failed', 'jobs', 'failed'],
      ['Expired', 'jobs', 'expired'],
      ['In doubt', 'jobs', 'in_doubt'],
      ['Waiting', 'jobs', 'waiting'],
    ],
  ],
  [
    'Cells',
    [
      ['Written', 'cells', 'written'],
      ['Protected', 'cells', 'protected'],
      ['Skipped', 'cells', 'skipped'],
    ],
  ],
]

function totalText(totals: unknown, part: string, field: string): HtmlPart {
  const value = readTotal(totals, part, field)
  if (value === null || value === 0) return null
  return field === 'utilisation' ? formatPercent(value) : formatCount(value)
}

/** The skipped cells of a report; empty if it was stored by another version. */
export function readSkippedCells(totals: unknown): readonly SkippedGroup[] {
  const groups = isObject(totals) ? totals['skipped_cells'] : null
  return Array.isArray(groups) ? (groups as SkippedGroup[]) : []
}

export function readStates(totals: unknown): RowStateCounts | null {
  if (readTotal(totals, 'rows', 'picked') === null) return null
  return Object.fromEntries(
    ROW_STATES.map((state) => [state, readTotal(totals, 'rows', state) ?? 0]),
  ) as RowStateCounts
}

/** The rows by source of a report; null if it was stored by another version. */
export function readSplit(totals: unknown): Readonly<Record<string, RowStateCounts>> | null {
  const split = isObject(totals) ? totals['rows_by_source'] : null
  return isObject(split) ? (split as Record<string, RowStateCounts>) : null
}
