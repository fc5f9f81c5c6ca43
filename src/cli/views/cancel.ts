import type { CancelReport } from '../../actions/cancel.ts'
import { Run } from '../../domain/run.ts'
import { type Output, wrapText } from '../terminal.ts'
import { compact, renderSuggestions, type SuggestedCommand } from './layout.ts'

/** How a cancelled run ended, and the next commands. */
export function renderCancel(report: CancelReport, output: Output): string[] {
  const { run, reason, follow, sources } = report
  const { paint } = output
  const more = reason === null ? '.' : `: ${reason}.`
  const words = {
    [Run.running]: `${paint('warn', 'is cancelled')} and still finishes what is under way.`,
    [Run.interrupted]: `${paint('warn', 'interrupted')}${more} What it saved is kept.`,
    [Run.completed]: `${paint('good', 'completed')} before it could be cancelled.`,
    [Run.failed]: `${paint('bad', 'failed')}${more}`,
  }[report.state]
  const names = sources.join(' ')
  const suggestions = compact<SuggestedCommand>([
    report.state === Run.running && ['fillrate runs --limit 5', 'shows when it has ended'],
    follow && [`fillrate pause ${names}`, 'stops live sync, which continues with later changes'],
    [`fillrate run ${follow ? names : ''}`.trim(), 'continues with the rows that still wait'],
    [`fillrate undo ${run} --dry-run`, 'shows what undoing its writes would restore'],
  ])
  return [
    ...wrapText(`${paint('heading', `Run ${run}`)} ${words}`, output.textColumns),
    ...renderSuggestions(output, suggestions),
  ]
}
