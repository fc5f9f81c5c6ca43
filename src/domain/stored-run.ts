import { isObject } from './json.ts'
import type { ServiceReport } from './report/run.ts'
import { Run, type RunState, type StoredRunOptions, type Trigger } from './run.ts'

// What is stored of a run. An older version may have stored a report of another shape.

/** How a run ended, for lists and pages, from its report, which is more exact than its state (`budget_reached`). */
export function runOutcome({
  state,
  totals,
}: {
  readonly state: RunState
  readonly totals: unknown
}): string {
  const status = isObject(totals) ? totals['status'] : null
  return state === Run.running || typeof status !== 'string' ? state : status
}

/** A number of it; null if it is missing. */
export function readTotal(totals: unknown, part: string, name?: string): number | null {
  const inPart = isObject(totals) ? totals[part] : undefined
  const value = name === undefined ? inPart : isObject(inPart) ? inPart[name] : undefined
  return typeof value === 'number' ? value : null
}

/** The services of a stored run, in their order. Empty: it has one, or has not ended. Pure. */
export function readServiceTotals(totals: unknown): readonly ServiceReport[] {
  const services = isObject(totals) ? totals['services'] : undefined
  return Array.isArray(services) ? (services as ServiceReport[]) : []
}

/** What started a run, and its kind if it is not an ordinary one. */
export function describeRunKind({
  trigger,
  options: { dry, undoes, remap },
}: {
  readonly trigger: Trigger
  readonly options: StoredRunOptions
}): string {
  if (undoes !== undefined) return `undo of run ${undoes}`
  if (remap === true) return 'remap'
  return dry === true ? `${trigger}, dry` : trigger
}
