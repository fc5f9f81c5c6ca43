import { createRng, seededIdentifier } from './rng.ts'
import { findCompany } from './companies.ts'
import { isFaultInjected, faultPointKey } from './faults.ts'
import type { FaultName, FaultPoint } from './faults.ts'
import { canonicalEmail } from './normalize.ts'
import type { SandboxOptions } from './options.ts'
import { findPerson, personRecord } from './people.ts'
import type { CompanyLookup, PersonLookup } from './records.ts'

/** One input of a job: the lookup, and the text that the client sent. */
export interface JobInput {
  readonly lookup: PersonLookup | CompanyLookup
  readonly asWritten: string
}

/** One item of a delivery's results (service-interface.md, Batch webhook delivery payload). */
export interface DeliveryResult {
  readonly request_id: string
  readonly data: object | null
}

export interface ResultsJob {
  readonly jobId: string
  readonly inputs: readonly JobInput[]
  readonly point: FaultPoint
}

export function toEmailInput(email: string): JobInput {
  return { lookup: { kind: 'email', key: canonicalEmail(email) ?? email }, asWritten: email }
}

/** The record of a person or a company; undefined if there is no match. */
export function findRecord(
  lookup: PersonLookup | CompanyLookup,
  options: SandboxOptions,
): object | undefined {
  return lookup.kind === 'domain' || lookup.kind === 'company'
    ? findCompany(lookup, options)
    : findPerson(lookup, options)
}

export function makeRequestId(
  job: ResultsJob,
  at: number,
  options: Pick<SandboxOptions, 'requestIds'>,
): string {
  if (options.requestIds === 'index') return String(at)
  const written = job.inputs[at]?.asWritten
  if (options.requestIds === 'email' && written !== undefined) return written
  return `req_${seededIdentifier(at, job.jobId)}`
}

/**
 * The data of a result without a match. The interface does not define it, so null, an empty object and an object
 * without a confidence all occur.
 */
function emptyResult(lookup: PersonLookup | CompanyLookup, seed: number): object | null {
  const { key, kind } = lookup
  return createRng(seed, `nothing ${key}`).pick([null, {}, kind === 'email' ? { email: key } : null])
}

function unmatchedResults(job: ResultsJob, options: SandboxOptions): DeliveryResult[] {
  const draw = createRng(options.seed, `foreign ${faultPointKey(job.point)}`)
  return Array.from({ length: draw.between(1, 3) }, (_, more) => {
    const at = job.inputs.length + more
    const email = `stranger.${seededIdentifier(at, faultPointKey(job.point))}@elsewhere.example`
    const requestId = options.requestIds === 'email' ? email : makeRequestId(job, at, options)
    return { request_id: requestId, data: personRecord({ kind: 'email', key: email }, options) }
  })
}

function shuffled(results: readonly DeliveryResult[], seed: number, text: string): DeliveryResult[] {
  const draw = createRng(seed, `shuffle ${text}`)
  return results
    .map((result) => ({ result, place: draw.next() }))
    .sort((one, other) => one.place - other.place)
    .map(({ result }) => result)
}

/** Whether the service rejects this email when it accepts a job. */
export function isRejectedInput(
  { lookup }: JobInput,
  options: Pick<SandboxOptions, 'refusedShare' | 'seed'>,
): boolean {
  const { refusedShare, seed } = options
  return refusedShare > 0 && createRng(seed, `refused ${lookup.key}`).below(refusedShare)
}

/** The results that a job delivers: one per input, except for injected faults. */
export function createResults(
  job: ResultsJob,
  failed: boolean,
  options: SandboxOptions,
  made: (fault: FaultName) => void,
): readonly DeliveryResult[] {
  if (failed && options.failedResults === 'none') return []
  const part = createRng(options.seed, `part ${faultPointKey(job.point)}`)
  const results = job.inputs.flatMap((input, at): DeliveryResult[] => {
    const { lookup } = input
    if (isRejectedInput(input, options)) return []
    if (failed && part.below(0.5)) return []
    if (isFaultInjected('missing-result', { ...job.point, inputs: [lookup.key] }, options)) {
      made('missing-result')
      return []
    }
    return [
      {
        request_id: makeRequestId(job, at, options),
        data: findRecord(lookup, options) ?? emptyResult(lookup, options.seed),
      },
    ]
  })
  if (isFaultInjected('foreign-result', job.point, options)) {
    made('foreign-result')
    results.push(...unmatchedResults(job, options))
  }
  if (!isFaultInjected('shuffle', job.point, options)) return results
  made('shuffle')
  return shuffled(results, options.seed, faultPointKey(job.point))
}
