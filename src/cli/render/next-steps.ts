import { FAILED_ROW_STATES } from '../../domain/row.ts'
import type { RunReport } from '../../runs/report.ts'
import type { Output } from '../output.ts'
import { pluralize } from '../../util/format.ts'
import { pad, wrap } from './text.ts'

type Step = readonly [type: string, why: string]

/** What one can type after a run, where something is left to do. */
export function nextSteps(report: RunReport, output: Output): string[] {
  const steps = stepsAfter(report)
  if (steps.length === 0) return []
  const { paint, textColumns } = output
  const longest = Math.max(...steps.map(([type]) => type.length))
  const room = Math.max(20, textColumns - longest - 5)
  return [
    '',
    paint('heading', 'Next'),
    ...steps.flatMap(([type, why]) =>
      wrap(why, room).map((line, n) => `  ${paint('type', pad(n === 0 ? type : '', longest))}   ${line}`),
    ),
  ]
}

/** Pure. */
export function stepsAfter(
  report: Pick<RunReport, 'status' | 'rows' | 'cells' | 'jobs' | 'skipped_over_budget' | 'dry_run'>,
): Step[] {
  const { rows, cells, jobs, status, skipped_over_budget: leftOut } = report
  const steps: Step[] = []
  const failed = FAILED_ROW_STATES.reduce((sum, state) => sum + rows[state], 0)
  const why = [
    ...(failed > 0 ? [`${pluralize(failed, 'row')} failed`] : []),
    ...(cells.skipped > 0 ? [`${pluralize(cells.skipped, 'cell')} did not fit`] : []),
  ]
  if (why.length > 0 && !report.dry_run) steps.push(['fillrate failures', `why ${why.join(' and ')}`])
  if (status === 'failed' || status === 'unauthorized')
    steps.push(['fillrate check', 'what is wrong, and what to do about it'])
  if (status === 'budget_reached' || leftOut > 0) {
    const rest =
      leftOut > 0 ? `${pluralize(leftOut, 'row')} would cost more than the budget` : 'the budget is used up'
    steps.push(['fillrate plan', `${rest}; this tells what the rest would cost`])
  }
  if (report.dry_run && rows.enriched > 0)
    steps.push(['fillrate run', 'writes what is shown, out of the stored records: they are not asked again'])
  if (rows.waiting > 0) {
    const open = jobs.waiting + jobs.in_doubt
    if (open > 0) steps.push(['fillrate jobs', `${pluralize(open, 'job')} without a delivery yet`])
    steps.push([
      'fillrate run',
      `carries on with ${pluralize(rows.waiting, 'row')} that ${rows.waiting === 1 ? 'waits' : 'wait'}, and asks nothing twice`,
    ])
  }
  return steps
}
