import { chance, identifier } from './chance.ts'
import { findCompany } from './companies.ts'
import { isMade, momentText } from './faults.ts'
import type { FaultName, Moment } from './faults.ts'
import { readEmail } from './normal.ts'
import type { SandboxOptions } from './options.ts'
import { findPerson, personRecord } from './people.ts'
import type { CompanyLookup, PersonLookup } from './records.ts'

/** One input of a job: what is asked, and how the caller wrote it. */
export interface JobInput {
  readonly lookup: PersonLookup | CompanyLookup
  readonly asWritten: string
}

/** One item of a delivery's results (service-interface.md, Batch webhook delivery payload). */
export interface Result {
  readonly request_id: string
  readonly data: object | null
}

export interface ResultsJob {
  readonly jobId: string
  readonly inputs: readonly JobInput[]
  readonly moment: Moment
}

export function emailInput(email: string): JobInput {
  return { lookup: { kind: 'email', key: readEmail(email) ?? email }, asWritten: email }
}

/** The record of a person or a company, or undefined where the lookup matches nothing. */
export function find(lookup: PersonLookup | CompanyLookup, options: SandboxOptions): object | undefined {
  return lookup.kind === 'domain' || lookup.kind === 'company'
    ? findCompany(lookup, options)
    : findPerson(lookup, options)
}

export function requestIdOf(
  job: ResultsJob,
  at: number,
  options: Pick<SandboxOptions, 'requestIds'>,
): string {
  if (options.requestIds === 'index') return String(at)
  const written = job.inputs[at]?.asWritten
  if (options.requestIds === 'email' && written !== undefined) return written
  return `req_${identifier(at, job.jobId)}`
}

/**
 * What is given for a lookup that matches nothing: the interface does not say, so null, an object without
 * fields and one without a confidence all occur.
 */
function nothing(lookup: PersonLookup | CompanyLookup, seed: number): object | null {
  const { key, kind } = lookup
  return chance(seed, `nothing ${key}`).pick([null, {}, kind === 'email' ? { email: key } : null])
}

function foreignResults(job: ResultsJob, options: SandboxOptions): Result[] {
  const draw = chance(options.seed, `foreign ${momentText(job.moment)}`)
  return Array.from({ length: draw.between(1, 3) }, (_, more) => {
    const at = job.inputs.length + more
    const email = `stranger.${identifier(at, momentText(job.moment))}@elsewhere.example`
    const requestId = options.requestIds === 'email' ? email : requestIdOf(job, at, options)
    return { request_id: requestId, data: personRecord({ kind: 'email', key: email }, options) }
  })
}

function shuffled(results: readonly Result[], seed: number, text: string): Result[] {
  const draw = chance(seed, `shuffle ${text}`)
  return results
    .map((result) => ({ result, place: draw.next() }))
    .sort((one, other) => one.place - other.place)
    .map(({ result }) => result)
}

/** Whether the service refuses this email when it accepts a job. */
export function isRefused(
  { lookup }: JobInput,
  options: Pick<SandboxOptions, 'refusedShare' | 'seed'>,
): boolean {
  const { refusedShare, seed } = options
  return refusedShare > 0 && chance(seed, `refused ${lookup.key}`).below(refusedShare)
}

/** The results that a job delivers: one per input, but for the faults that are made. */
export function resultsOf(
  job: ResultsJob,
  failed: boolean,
  options: SandboxOptions,
  made: (fault: FaultName) => void,
): readonly Result[] {
  if (failed && options.failedResults === 'none') return []
  const part = chance(options.seed, `part ${momentText(job.moment)}`)
  const results = job.inputs.flatMap((input, at): Result[] => {
    const { lookup } = input
    if (isRefused(input, options)) return []
    if (failed && part.below(0.5)) return []
    if (isMade('missing-result', { ...job.moment, inputs: [lookup.key] }, options)) {
      made('missing-result')
      return []
    }
    return [
      {
        request_id: requestIdOf(job, at, options),
        data: find(lookup, options) ?? nothing(lookup, options.seed),
      },
    ]
  })
  if (isMade('foreign-result', job.moment, options)) {
    made('foreign-result')
    results.push(...foreignResults(job, options))
  }
  if (!isMade('shuffle', job.moment, options)) return results
  made('shuffle')
  return shuffled(results, options.seed, momentText(job.moment))
}
