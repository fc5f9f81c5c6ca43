import type { SourceKind } from './mapping.ts'

export const FIELD_TYPES = ['text', 'number', 'list', 'object'] as const
/** What a description says of a field. A text may hold anything: a range, a date, digits. */
export type FieldType = (typeof FIELD_TYPES)[number]

/** The fields of a record of each kind, by path. A dot leads into an object. */
export type RecordFields = { readonly [Kind in SourceKind]: Readonly<Record<string, FieldType>> }

/** The fields of a record of each kind, as today's interface lists them. */
export const BUILT_IN_FIELDS = {
  person: {
    id: 'text',
    email: 'text',
    'name.full': 'text',
    'name.first': 'text',
    'name.last': 'text',
    title: 'text',
    seniority: 'text',
    department: 'text',
    phone: 'text',
    linkedin: 'text',
    'company.id': 'text',
    'company.name': 'text',
    'company.domain': 'text',
    confidence: 'number',
    last_updated: 'text',
  },
  company: {
    id: 'text',
    name: 'text',
    legal_name: 'text',
    domain: 'text',
    industry: 'text',
    sub_industry: 'text',
    employee_count: 'number',
    employee_range: 'text',
    revenue: 'number',
    revenue_range: 'text',
    founded_year: 'number',
    'location.city': 'text',
    'location.state': 'text',
    'location.country': 'text',
    technologies: 'list',
    'social.linkedin': 'text',
    'social.twitter': 'text',
  },
} as const satisfies RecordFields

/** A field of the record that a source of this kind can copy into a column. */
export type RecordField<Kind extends SourceKind> = keyof (typeof BUILT_IN_FIELDS)[Kind] & string
