import type { FieldShape, FieldType } from './service/field-shape.ts'
import type { SourceKind } from './mapping.ts'

const createShape = (
  description: string,
  examples: readonly unknown[],
  options: Partial<FieldShape> = {},
): FieldShape => ({ type: 'text', description, examples, form: 'fixed', ...options })

const open = (description: string, ...examples: string[]): FieldShape =>
  createShape(description, examples, { form: 'open' })
const fixed = (description: string, ...examples: string[]): FieldShape => createShape(description, examples)
const numeric = (description: string, ...examples: number[]): FieldShape =>
  createShape(description, examples, { type: 'number' })

const identifier = createShape(
  "the service's own identifier",
  ['184467', 'per_8f3a2c91', '5f0c1b0e-7d0a-4a51-9a3e-1f6a0d2b9c77'],
  { form: 'unknown' },
)
const domain = fixed('a domain', 'x.com', 'analytical-engines.example')
const organization = open('a name', 'IBM', 'The Boston Consulting Group, Inc.')

/** The fields of a record of each kind, as today's interface lists them. A dot leads into an object. */
const SHAPES = {
  person: {
    id: identifier,
    email: fixed('an email address', 'a@x.io', 'ada.lovelace@analytical-engines.example'),
    'name.full': open('a name', 'Bo Ek', 'Maria Fernanda Hernandez'),
    'name.first': open('a name', 'Bo', 'Maria Fernanda'),
    'name.last': open('a name', 'Ek', 'Fernandez-Hernandez'),
    title: open('a job title', 'CEO', 'Director of Business Development'),
    seniority: open('a word such as director', 'vp', 'c_suite', 'director', 'manager', 'senior', 'entry'),
    department: open('a word such as engineering', 'sales', 'engineering', 'human_resources'),
    phone: fixed('a telephone number such as +15551234567', '+4790000000', '+15551234567'),
    linkedin: fixed(
      'a URL',
      'https://linkedin.com/in/bo',
      'https://www.linkedin.com/in/maria-fernanda-hernandez',
    ),
    'company.id': identifier,
    'company.name': organization,
    'company.domain': domain,
    confidence: numeric('a number from 0 to 1', 0.5, 0.93, 1),
    last_updated: fixed('a time such as 2026-11-21T09:30:00Z', '2026-11-21T09:30:00Z'),
  },
  company: {
    id: identifier,
    name: organization,
    legal_name: open('a name', 'IBM Corp.', 'The Boston Consulting Group, Inc.'),
    domain,
    industry: open('a text such as Financial Services', 'Retail', 'Software', 'Financial Services'),
    sub_industry: open('a text such as Investment Banking', 'Biotech', 'Investment Banking'),
    employee_count: numeric('a whole number', 1, 260, 2_300_000),
    employee_range: open('a range such as 51-200', '1-10', '51-200', '501+', '5001-10000'),
    revenue: numeric('a whole number, in full', 250_000, 12_000_000, 650_000_000_000),
    revenue_range: open('a range such as $10M-$50M', '$1B+', '$10M-$50M'),
    founded_year: numeric('a year', 1802, 1998, 2024),
    'location.city': open('a name', 'Oslo', 'San Francisco'),
    'location.state': open('a name or a code', 'CA', 'California'),
    'location.country': open('a name or a code', 'NO', 'United States'),
    technologies: createShape('a list of texts', [['React'], ['PostgreSQL', 'React', 'Google Analytics']], {
      type: 'list',
      form: 'open',
    }),
    'social.linkedin': fixed(
      'a URL',
      'https://linkedin.com/company/x',
      'https://www.linkedin.com/company/analytical-engines',
    ),
    'social.twitter': fixed('a URL', 'https://x.com/acme', 'https://twitter.com/analyticalengines'),
  },
} satisfies Record<SourceKind, Readonly<Record<string, FieldShape>>>

/** A field of the record that a source of this kind can copy into a column. */
export type RecordField<Kind extends SourceKind> = keyof (typeof SHAPES)[Kind] & string

/** The fields of a record of each kind, by path. */
export type RecordShapes = { readonly [Kind in SourceKind]: Readonly<Record<string, FieldShape>> }

/** The fields of today's interface. */
export const BUILT_IN_SHAPES: RecordShapes = SHAPES

/** What the values of a field look like; of `name` or `location`, the object. Null: the service does not list it. */
export function shapeOfField(field: string, shapes: Readonly<Record<string, FieldShape>>): FieldShape | null {
  if (Object.hasOwn(shapes, field)) return shapes[field] ?? null
  const inner = Object.keys(shapes).filter((name) => name.startsWith(`${field}.`))
  if (inner.length === 0) return null
  const example = Object.fromEntries(
    inner.map((name) => [name.slice(field.length + 1), shapes[name]?.examples[0]]),
  )
  return createShape(`an object with ${Object.keys(example).join(', ')}`, [example], { type: 'object' })
}

/** The shape of a field that a description lists by its type. Of a text nothing is known. */
export const TYPE_SHAPES: Readonly<Record<FieldType, FieldShape>> = {
  text: createShape('a text', [], { form: 'unknown' }),
  number: createShape('a number', [1, 250, 2_300_000], { type: 'number', form: 'unknown' }),
  list: createShape('a list of texts', [['React']], { type: 'list', form: 'unknown' }),
  object: createShape('an object', [{ name: 'Ada' }], { type: 'object', form: 'unknown' }),
}
