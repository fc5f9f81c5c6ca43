import type { LookupKind } from '../identifiers/kind.ts'
import type { GivenInputs, JobInput, JobInputs } from './messages.ts'

/** The inputs of a job in both of their forms. */
export function toJobInputs(given: GivenInputs): JobInputs {
  const inputs = 'inputs' in given ? given.inputs : given.emails.map((email) => ({ email }))
  return { inputs, emails: inputs.map(({ email = '' }: JobInput) => email) }
}

/** The inputs of a job as they are stored, in the service's field names. Null: erased. */
export const readStoredInputs = (stored: readonly (Readonly<Record<string, string>> | null)[]): JobInputs =>
  toJobInputs({
    inputs: stored.map((input) => readStoredInput(input ?? {})),
  })

/** An input as it is stored. */
export const readStoredInput = (stored: Readonly<Record<string, string>>): JobInput =>
  Object.fromEntries(Object.entries(stored).map(([field, value]) => [INPUT_FIELDS[field] ?? field, value]))

/** The input under the names that it is stored with, and that lookups have by default: `linkedin_url`. */
export const toServiceFields = (input: JobInput): Record<string, string> =>
  Object.fromEntries(Object.entries(input).map(([name, value]) => [SERVICE_FIELDS[name] ?? name, value]))

/** The names that differ. */
const SERVICE_FIELDS: Readonly<Record<string, string>> = {
  linkedinUrl: 'linkedin_url',
  firstName: 'first_name',
  lastName: 'last_name',
  companyDomain: 'company_domain',
}
const INPUT_FIELDS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(SERVICE_FIELDS).map(([name, field]) => [field, name]),
)

/** The endpoint of a job: people and companies never go together. An input that was erased is of neither. */
export const toBulkName = ({ inputs }: Pick<JobInputs, 'inputs'>): 'bulk' | 'companyBulk' =>
  inputs.some(({ domain }) => domain !== undefined) ? 'companyBulk' : 'bulk'

/** What an input is identified by. */
export function kindOfInput(input: JobInput): LookupKind {
  if (input.domain !== undefined) return 'domain'
  if (input.email !== undefined) return 'email'
  return input.linkedinUrl === undefined ? 'name_company' : 'linkedin_url'
}
