import type { LookupKind } from '../identifiers/kind.ts'
import type { GivenInputs, JobInput, JobInputs } from './messages.ts'

/** The inputs of a job in both of their forms. */
export function toJobInputs(given: GivenInputs): JobInputs {
  const inputs = 'inputs' in given ? given.inputs : given.emails.map((email) => ({ email }))
  return { inputs, emails: inputs.map(({ email = '' }: JobInput) => email) }
}

/** The inputs of a job as they are stored. Null: erased. */
export const readStoredInputs = (stored: readonly (JobInput | null)[]): JobInputs =>
  toJobInputs({ inputs: stored.map((input) => input ?? {}) })

/** The endpoint of a job: people and companies never go together. An input that was erased is of neither. */
export const toBulkName = ({ inputs }: Pick<JobInputs, 'inputs'>): 'bulk' | 'companyBulk' =>
  inputs.some(({ domain }) => domain !== undefined) ? 'companyBulk' : 'bulk'

/** What an input is identified by. */
export function kindOfInput(input: JobInput): LookupKind {
  if (input.domain !== undefined) return 'domain'
  if (input.email !== undefined) return 'email'
  return input.linkedin_url === undefined ? 'name_company' : 'linkedin_url'
}
