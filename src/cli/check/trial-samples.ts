import type { LookupKind } from '../../domain/identifiers/kind.ts'
import type { CompanyInput, PersonInput, ServiceDefinition } from '../../domain/service/adapter.ts'
import { toJobInputs } from '../../domain/service/job-inputs.ts'
import type { JobInputs, ServiceAnswer } from '../../domain/service/messages.ts'
import { createService } from '../../domain/service/service.ts'

/** Made up: no trial is about a real person. */
export const SAMPLE_INPUTS = {
  email: { email: 'ada@example.com' },
  linkedin_url: { linkedinUrl: 'https://www.linkedin.com/in/countess' },
  name_company: { name: 'Ada Lovelace', company: 'Analytical Engines' },
  domain: { domain: 'example.com' },
} as const satisfies Record<LookupKind, PersonInput | CompanyInput>
export const SAMPLE_JOB = 'JOB-1'

const OTHER_INPUTS = {
  email: { email: 'bob@example.com' },
  linkedin_url: { linkedinUrl: 'https://www.linkedin.com/in/inventor' },
  name_company: { name: 'Bob Babbage', company: 'Difference Engines' },
  domain: { domain: 'example.org' },
} as const satisfies Record<LookupKind, PersonInput | CompanyInput>

/** A job of what an endpoint takes. A function that sorts it in its place would mix up results that come in their order. */
export function sampleJob(kinds: readonly LookupKind[]): JobInputs {
  const [first = 'email'] = kinds
  const others = kinds.length > 1 ? kinds.slice(1).map((kind) => SAMPLE_INPUTS[kind]) : [OTHER_INPUTS[first]]
  const job = toJobInputs({ inputs: [SAMPLE_INPUTS[first], ...others] })
  return { emails: Object.freeze(job.emails), inputs: Object.freeze(job.inputs) }
}

/** What a function is tried with. */
export interface Sample {
  /** For a message: made up, as all of it. */
  readonly text: string
  readonly arguments: readonly unknown[]
  /** The headers among the arguments. */
  readonly headers?: SampleHeaders
}

interface SampleHeaders {
  readonly values: ServiceAnswer['headers']
  /** Names that were read and are not in lower case, as all names of headers are. */
  readonly misread: () => string[]
}

/** Headers that have every name that is read. */
export function createSampleHeaders(): SampleHeaders {
  const misread: string[] = []
  const values = new Proxy<Record<string, string>>(
    {},
    {
      get: (_, name) => {
        if (typeof name !== 'string') return undefined
        if (name === name.toLowerCase()) return '60'
        misread.push(name)
        return undefined
      },
    },
  )
  return { values, misread: () => misread }
}

/** A record with the first example of each field, and a confidence beside them. */
export function sampleRecord(definition: ServiceDefinition, kind: 'person' | 'company'): object {
  const shapes = createService(definition).shapes[kind]
  const place = definition[kind]?.record
  const confidence = place?.confidence === undefined ? 'confidence' : place.confidence
  const record: Record<string, unknown> = {}
  for (const [path, { examples }] of Object.entries(shapes)) {
    const steps = path.split('.')
    let at = record
    for (const step of steps.slice(0, -1)) at = at[step] = (at[step] ?? {}) as Record<string, unknown>
    at[steps.at(-1) ?? path] = examples[0]
  }
  const [wrapper] = place?.wrappers ?? []
  const wrapped = wrapper === undefined ? record : { [wrapper]: record }
  return confidence === null ? wrapped : { ...wrapped, [confidence]: place?.confidenceMax ?? 1 }
}

export function sampleAnswer(text: string, status: number, body: unknown): Sample {
  const headers = createSampleHeaders()
  return { text, arguments: [{ status, headers: headers.values, body }], headers }
}

/** Answers to a lookup or a poll: an outage's page, nothing, an error, and a record. */
export function sampleAnswers(definition: ServiceDefinition, kind: 'person' | 'company'): Sample[] {
  return [
    sampleAnswer('an empty body', 200, undefined),
    sampleAnswer('the body null', 200, null),
    sampleAnswer('the body {}', 200, {}),
    sampleAnswer('the body []', 200, []),
    sampleAnswer('a 404 without a body', 404, undefined),
    sampleAnswer('a 502 with a page', 502, undefined),
    sampleAnswer('a record of its fields', 200, sampleRecord(definition, kind)),
  ]
}
