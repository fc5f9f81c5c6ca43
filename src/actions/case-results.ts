import { isDeepStrictEqual } from 'node:util'
import { toBulkName } from '../domain/service/job-inputs.ts'
import type { JobInputs } from '../domain/service/messages.ts'
import type { Service } from '../domain/service/service.ts'
import { parseEvent, parseResult } from '../webhook/event.ts'

/** The results of a delivery, and what their job cost if the service says it. */
export function readResults(
  service: Service,
  body: Buffer,
  job: JobInputs | null,
): { readonly results: readonly unknown[]; readonly credits?: number } {
  const parsed = parseEvent(body)
  if (!parsed.ok) return { results: [] }
  const isCompany = job === null ? service.person === null : toBulkName(job) === 'companyBulk'
  const kind = isCompany ? 'company' : 'person'
  const results = parsed.event.results.map(({ requestId, index, data, raw, credits }) => {
    const read = parseResult(isCompany ? (data ?? raw) : data, kind, service)
    const isPlace = index === null || job === null || index in job.inputs
    const fault = isPlace ? read.fault : `${index} is no index of its ${job.inputs.length} inputs, from 0`
    const outcome = fault !== null ? 'unreadable' : read.found ? 'found' : 'not_found'
    const { record, confidence, email } = read
    return {
      requestId,
      index,
      outcome,
      record,
      confidence,
      email,
      ...(fault !== null && { fault }),
      ...(typeof credits === 'number' && { credits }),
    }
  })
  const { credits } = parsed.event
  return { results, ...(typeof credits === 'number' && { credits }) }
}

/** How a value differs from the expected one, in the fields that are given. */
export function findDifferences(place: string, value: unknown, expected: unknown): string[] {
  if (typeof expected === 'object' && expected !== null) {
    if (Array.isArray(expected)) {
      if (!Array.isArray(value) || value.length !== expected.length)
        return [`${place}: ${JSON.stringify(value)}, expected ${expected.length} items`]
      return expected.flatMap((item, index) => findDifferences(`${place}[${index}]`, value[index], item))
    }
    if (typeof value !== 'object' || value === null)
      return [`${place || 'the result'}: ${JSON.stringify(value)}, expected ${JSON.stringify(expected)}`]
    return Object.entries(expected).flatMap(([key, inner]) =>
      findDifferences(place === '' ? key : `${place}.${key}`, (value as Record<string, unknown>)[key], inner),
    )
  }
  return isDeepStrictEqual(value, expected)
    ? []
    : [`${place}: ${JSON.stringify(value)}, expected ${JSON.stringify(expected)}`]
}
