import { z } from 'zod'
import type { SourceKind } from '../domain/mapping.ts'
import { columnName, flag, objectOr, share, sql } from './leaves.ts'
import { outputSchema } from './output-schema.ts'
import { checkOutputs } from './outputs.ts'

const identifier = String.raw`(?:[\p{L}_][\p{L}\p{N}_$]*|"(?:[^"]|"")+")`
const tableName = new RegExp(String.raw`^\s*${identifier}(?:\s*\.\s*${identifier})?\s*$`, 'u')
const expectedTable = `a table's name, with its schema where it has one: 'crm.contacts', '"Contacts"'`

const keyColumns = z
  .array(columnName, { error: 'a list of columns' })
  .min(1, { error: 'at least one column' })

const common = {
  table: z
    .string({ error: expectedTable })
    .regex(tableName, { error: expectedTable })
    .describe('Named t in every expression.'),
  joins: sql('left join crm.accounts a on a.id = t.account_id')
    .optional()
    .describe('Joins for the expressions.'),
  key: z
    .union([columnName, keyColumns], { error: "a column's name, or a list of them" })
    .optional()
    .describe('Column or columns that identify a row. Default: the primary key.'),
  where: sql('t.deleted_at is null').optional().describe('Which rows. Default: all.'),
  changedAt: sql('t.updated_at')
    .optional()
    .describe(
      'A timestamptz that moves when a row changes: a pass then costs what has changed. Of a timestamp without time zone, or a date, 12 hours more are read.',
    ),
  follow: flag.optional().describe('`fillrate start` enriches its rows as they change. Default: false.'),
  minConfidence: share(1).optional().describe('A record below it is not used. Default: 0.'),
  cascade: flag
    .optional()
    .describe('A row whose lookup finds nothing goes on to its next identifier. Default: false.'),
  touch: z
    .record(columnName, sql('now()'), { error: objectOr("{ enriched_at: 'now()' }") })
    .optional()
    .describe('Columns to set when an output is written, and only then.'),
}

const personInputs = z
  .strictObject(
    {
      email: sql('t.email').optional(),
      linkedin_url: sql('t.linkedin').optional().describe('The URL of a personal LinkedIn profile.'),
      name: sql("concat_ws(' ', t.first_name, t.last_name)").optional().describe('Together with company.'),
      company: sql('a.name').optional().describe('Together with name.'),
    },
    { error: objectOr("{ email: 't.email' }") },
  )
  .superRefine((inputs, context) => {
    const [missing, given] = inputs.name === undefined ? ['name', 'company'] : ['company', 'name']
    if ((inputs.name === undefined) !== (inputs.company === undefined)) {
      context.addIssue({
        code: 'custom',
        path: [missing],
        message: 'an SQL expression: the service asks by name and company together',
        params: { todo: `Add \`${missing}\`, or leave out \`${given}\`.` },
      })
    } else if (Object.values(inputs).every((input) => input === undefined)) {
      const message = 'at least one of email, linkedin_url, or name with company'
      context.addIssue({ code: 'custom', message })
    }
  })

const companyInputs = z.strictObject(
  { domain: sql('t.website').describe('A domain or a URL.') },
  { error: objectOr("{ domain: 't.website' }") },
)

function outputs(kind: SourceKind) {
  const example = kind === 'person' ? "{ title: 'title' }" : "{ industry: 'industry' }"
  return z
    .record(columnName, outputSchema(kind), { error: objectOr(example) })
    .describe('Columns to fill, each with the field of the record that fills it.')
}

const person = z
  .strictObject({ kind: z.literal('person'), ...common, inputs: personInputs, outputs: outputs('person') })
  .superRefine(checkOutputs)

const company = z
  .strictObject({ kind: z.literal('company'), ...common, inputs: companyInputs, outputs: outputs('company') })
  .superRefine(checkOutputs)

/** One source, with what is wrong between its own fields. */
export const sourceSchema = z.discriminatedUnion('kind', [person, company], {
  error: "an object with `kind`: 'person' or 'company'",
})

export type ParsedSource = z.output<typeof sourceSchema>
