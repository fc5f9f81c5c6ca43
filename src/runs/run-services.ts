import { randomUUID } from 'node:crypto'
import { mergeProgress } from './counters.ts'
import { type EndedServiceRun, mergeReports } from './group-report.ts'
import type { RunReport } from './report.ts'
import { executeRun, type ExecuteRunOptions, type RunDeps, RunExecution } from './run.ts'
import { RunGroup } from './run-group.ts'
import { startRun } from './start-run.ts'
import type { Workers } from './workers.ts'

/** What a service's runs need of their process. Without workers each does all steps itself. */
export interface ServiceProcess {
  readonly deps: RunDeps
  readonly workers?: Workers
}

/**
 * One pass with the services of a configuration: of several a run for each, started together, and a row goes from the run of one to
 * that of the next. One that fails holds up only the rows that wait for it.
 */
export async function executeRuns(
  services: readonly ServiceProcess[],
  { sources, ...options }: ExecuteRunOptions,
): Promise<RunReport> {
  const [only] = services
  if (only !== undefined && services.length === 1)
    return executeRun(only.deps, { ...options, sources, ...(only.workers && { workers: only.workers }) })
  const group = new RunGroup()
  const executions: (() => Promise<EndedServiceRun>)[] = []
  const { budgetName = `services ${randomUUID()}`, onProgress, onStarted } = options
  const progress = new Map<string, Parameters<typeof mergeProgress>[0][number]>()
  let first: number | null = null
  for (const { deps, workers } of services) {
    const served = sources.filter((name) => deps.sources.has(name) || deps.brokenSources?.has(name))
    if (served.length === 0 && sources.length > 0) continue
    const service = deps.serviceName ?? ''
    const own: ExecuteRunOptions = {
      ...options,
      sources: served,
      budgetName,
      group: first,
      ...(workers && { workers }),
      onStarted: first === null ? onStarted : undefined,
      onProgress:
        onProgress &&
        ((one, waiting) => {
          progress.set(service, [service, one, waiting])
          onProgress(mergeProgress([...progress.values()]), 0)
        }),
    }
    const run = await startRun(deps, own)
    first ??= run.id
    group.add(run)
    executions.push(async () => {
      const ended = { run: run.id, service }
      try {
        return { ...ended, report: await new RunExecution(deps, own, run, group).execute(), error: null }
      } catch (error) {
        return { ...ended, report: null, error }
      } finally {
        group.markEnded(run.id)
      }
    })
  }
  return mergeReports(await Promise.all(executions.map((execute) => execute())))
}
