import { ROW_STATES, type RowState } from '../../../domain/row.ts'
import type { Plan } from '../../../pipeline/plan.ts'
import type { SandboxOptions } from '../../../sandbox/options.ts'
import { count, counted, duration } from '../../../domain/numbers.ts'
import { planLines } from '../../render/plan.ts'
import { reportLines } from '../../render/report.ts'
import { rowLines } from '../../render/row-lines.ts'
import type { Story } from '../story.ts'
import { brief } from './brief.ts'
import { exampleLines } from './examples.ts'
import { filledLines } from './filled.ts'
import { nextLines, type Typed } from './next.ts'
import { serviceLines } from './service.ts'
import type { Stage } from './stage.ts'

export function tellFaults(stage: Stage, { faults }: Pick<SandboxOptions, 'faults'>): void {
  const often = (share = 0): string => `${Number((share * 100).toFixed(1))}%`
  stage.text(
    `The service goes wrong on purpose: it answers ${often((faults['500'] ?? 0) + (faults['503'] ?? 0) + (faults['503-retry-after'] ?? 0))} of the calls with ` +
      `500 or 503, fails ${often(faults['job-failed'])} of the jobs, delivers ${often(faults.duplicate)} of them twice, ` +
      `${often(faults.early)} too early and ${often(faults['bad-signature'])} with a wrong signature, and leaves results out.`,
  )
}

export function tellPlan(stage: Stage, plan: Plan): void {
  stage.heading('What a run would ask', 'fillrate plan')
  stage.lines(planLines(brief(plan), stage.output, { budget: 'unlimited', bulkOff: null }))
}

/** The run itself, and where it had nothing to do, why. */
export function tellRun(stage: Stage, { run, status, known }: Story, { again }: Typed): void {
  stage.lines(reportLines(run, stage.output))
  if (run.rows.waiting > 0) {
    stage.lines([''])
    stage.text(
      `${counted(run.rows.waiting, 'row waits', 'rows wait')} for what was on its way when a demo before this one was killed: ` +
        `${again} carries on with them in a minute.`,
    )
  }
  if (run.rows.picked > 0 || run.status !== 'completed') return
  stage.lines([''])
  stage.text(
    `It asked nothing again: ${counted(known, 'question was', 'questions were')} answered in a demo before this one, and none is due. ` +
      'All rows that were ever picked, by how they ended:',
  )
  stage.lines(['', ...rowLines(everPicked(status), stage.output, 'ever picked')])
}

export function tellInterrupted(stage: Stage, { run }: Story, { again }: Typed): void {
  const out = run.jobs.waiting + run.jobs.in_doubt
  const lost =
    out === 0
      ? ''
      : ` The sandbox has forgotten the ${counted(out, 'job')} that ${out === 1 ? 'was' : 'were'} out, which a real service would not: those people are asked one by one.`
  const { paint } = stage.output
  stage.lines([
    `${paint('heading', `Run ${run.run}`)} ${paint('warn', 'interrupted')} after ${duration(run.duration_ms)}, its state is saved`,
    '',
    ...rowLines(run.rows, stage.output),
    '',
  ])
  stage.text(`${again} carries on where it was, and asks nothing twice.${lost}`)
}

function everPicked(status: Story['status']): { picked: number } & Record<RowState, number> {
  const sources = Object.values(status.rows)
  const sum = (of: (rows: (typeof sources)[number]) => number): number =>
    sources.reduce((all, rows) => all + of(rows), 0)
  const states = Object.fromEntries(ROW_STATES.map((state) => [state, sum((rows) => rows[state])]))
  return { picked: sum((rows) => rows.total), ...(states as Record<RowState, number>) }
}

export function tellFilled(stage: Stage, { filled, run }: Story): void {
  stage.heading(run.cells.written === 0 ? 'How it stands' : 'What was filled', 'fillrate status')
  stage.lines(filledLines(filled, stage.output))
}

export function tellService(stage: Stage, { service, run, deliveries }: Story): void {
  stage.heading('What the service counted')
  const { person, company, bulk } = run.requests
  stage.lines(serviceLines(service, { calls: person + company + bulk, deliveries }, stage.output))
}

export function tellTyped(stage: Stage, { typedValues, examples }: Story): void {
  const { paint } = stage.output
  const { values, before, after, changed } = typedValues
  stage.heading('What people typed stays')
  const ends = (checksum: string): string => `${checksum.slice(0, 8)}…`
  stage.lines([
    changed === 0
      ? `  ${paint('good', '✓')} ${counted(values, 'value')} in the CRM before the run, and none was touched.`
      : `  ${paint('bad', '✗')} ${count(changed)} of ${counted(values, 'value')} that were in the CRM before the run are not there now.`,
    `    Their checksum: ${ends(before)} before, ${ends(after)} after.`,
  ])
  if (examples.length > 0)
    stage.lines([
      '',
      `  ${counted(examples.length, 'person', 'people')}, before and after:`,
      '',
      ...exampleLines(examples, stage.output),
    ])
}

export function tellNext(stage: Stage, typed: Typed, folders: readonly string[]): void {
  stage.heading('What to type next')
  stage.lines(nextLines(typed, folders, stage.output))
}
