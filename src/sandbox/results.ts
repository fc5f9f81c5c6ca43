import { createRng, seededIdentifier } from './rng.ts'
import { type CompanyLookup, findCompany } from './companies.ts'
import type { Opportunity } from './faults.ts'
import type { SandboxOptions } from './options.ts'
import { type PersonLookup, findPerson, personRecord } from './people.ts'
import { canonicalEmail } from './requests.ts'

/** One input of a job: the lookup, and the text that the client sent. */
export interface SubmittedInput {
  readonly lookup: PersonLookup | CompanyLookup
  readonly asWritten: string
}

/** One item of a delivery's results. */
interface DeliveryResult {
  readonly request_id: string
  readonly data: object | null
}

/** An accepted job. */
export interface SandboxJob {
  readonly jobId: string
  readonly inputs: readonly SubmittedInput[]
  readonly opportunity: Opportunity
  readonly webhookUrl: URL | null
  /** Resolves when the delivery was answered for the first time, or will never be sent. */
  readonly firstAnswer: PromiseWithResolvers<void>
}

export function toEmailInput(email: string): SubmittedInput {
  return { lookup: { kind: 'email', key: canonicalEmail(email) ?? email }, asWritten: email }
}

/** The record of a person or a company; undefined if there is no match. */
export function findRecord(
  lookup: PersonLookup | CompanyLookup,
  options: SandboxOptions,
): object | undefined {
  return lookup.kind === 'domain' ? findCompany(lookup, options) : findPerson(lookup, options)
}

export function makeRequestId(
  { jobId, inputs }: SandboxJob,
  at: number,
  { requestIds }: Pick<SandboxOptions, 'requestIds'>,
): string {
  const written = inputs[at]?.asWritten
  if (requestIds === 'email' && written !== undefined) return written
  return `req_${seededIdentifier(at, jobId)}`
}

/**
 * The data of a result without a match. The interface does not define it, so null, an empty object and an object
 * without a confidence all occur.
 */
function emptyResult(lookup: PersonLookup | CompanyLookup, seed: number): object | null {
  const { key, kind } = lookup
  return createRng(seed, `nothing ${key}`).pick([null, {}, kind === 'email' ? { email: key } : null])
}

/** A result for an input that the job did not contain. */
function strangerResult(job: SandboxJob, options: SandboxOptions): DeliveryResult {
  const at = job.inputs.length
  const email = `stranger.${seededIdentifier(at, job.opportunity.key)}@elsewhere.example`
  return {
    request_id: options.requestIds === 'email' ? email : makeRequestId(job, at, options),
    data: personRecord({ kind: 'email', key: email }, options),
  }
}

/** Whether the service rejects this email when it accepts a job. */
export function isRejectedInput(
  { lookup }: SubmittedInput,
  options: Pick<SandboxOptions, 'refusedShare' | 'seed'>,
): boolean {
  const { refusedShare, seed } = options
  return refusedShare > 0 && createRng(seed, `refused ${lookup.key}`).below(refusedShare)
}

/** The results that a job delivers: one per input, except for injected faults. */
export function createResults(
  job: SandboxJob,
  isFailed: boolean,
  options: SandboxOptions,
): readonly DeliveryResult[] {
  if (isFailed && options.failedResults === 'none') return []
  const { opportunity } = job
  const part = opportunity.draw('part')
  const results = job.inputs.flatMap((input, at): DeliveryResult[] => {
    const { lookup } = input
    const isLeftOut =
      isRejectedInput(input, options) ||
      (isFailed && part.below(0.5)) ||
      opportunity.ofInput(lookup.key).injects('missing-result')
    if (isLeftOut) return []
    const data = findRecord(lookup, options) ?? emptyResult(lookup, options.seed)
    return [{ request_id: makeRequestId(job, at, options), data }]
  })
  if (opportunity.injects('foreign-result')) results.push(strangerResult(job, options))
  if (!opportunity.injects('shuffle')) return results
  const draw = opportunity.draw('shuffle')
  const places = new Map(results.map((result) => [result, draw.next()]))
  return results.toSorted((one, other) => (places.get(one) ?? 0) - (places.get(other) ?? 0))
}
