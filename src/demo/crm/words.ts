import type { NonEmptyList } from '../../sandbox/rng.ts'

/** Company names combine two of these, so that none refers to an existing company. */

// prettier-ignore
export const companyStarts: NonEmptyList<string> = [
  'Alder', 'Amber', 'Arctic', 'Birch', 'Bright', 'Cedar', 'Clear', 'Copper', 'Coral', 'Crest', 'Delta', 'Elm',
  'Ember', 'Fern', 'Fjord', 'Flint', 'Frost', 'Glen', 'Granite', 'Hazel', 'Heron', 'Iron', 'Ivory', 'Juniper',
  'Lake', 'Linden', 'Lumen', 'Maple', 'Marble', 'Moss', 'North', 'Oak', 'Opal', 'Orchard', 'Pine', 'Quartz',
  'River', 'Sable', 'Silver', 'Stone', 'Blå', 'Grün', 'Høy', 'Mühl', 'Sör',
]

// prettier-ignore
export const companyEnds: NonEmptyList<string> = [
  'bridge', 'brook', 'cliff', 'dale', 'field', 'ford', 'forge', 'gate', 'grove', 'haven', 'hill', 'holt', 'land',
  'line', 'mark', 'mere', 'mill', 'moor', 'path', 'peak', 'point', 'port', 'ridge', 'shore', 'side', 'spring',
  'stead', 'stream', 'vale', 'view', 'water', 'way', 'well', 'wick', 'wood', 'works',
]

export const legalForms: NonEmptyList<string> = [
  '',
  '',
  '',
  ' AS',
  ' AB',
  ' GmbH',
  ' Inc.',
  ' Ltd',
  ' B.V.',
  ' LLC',
]

/** What people enter into mandatory fields: real values, which must not be overwritten. */
export const placeholderValues: NonEmptyList<string> = ['N/A', 'n/a', '-', '?', 'unknown', '0']

/** Titles as a sales team enters them. */
// prettier-ignore
export const typedTitles: NonEmptyList<string> = [
  'CEO', 'CTO', 'Head of Sales', 'head of it', 'Sales', 'Owner', 'Founder & CEO', 'Buyer', 'Office Manager',
  'VP Marketing', 'Consultant', 'Dr.', 'Project lead (until June)', 'Daglig leder', 'Geschäftsführer',
]

/** Other values as they are typed. */
export const TYPED = {
  industry: ['Software', 'IT', 'Retail', 'energy', 'Manufacturing', 'Health'],
  city: ['Oslo', 'London', 'BERLIN', 'Paris ', 'New York', 'Göteborg'],
  country: ['NO', 'UK', 'Germany', 'FR', 'USA', 'sweden'],
  leadSource: ['webinar', 'trade fair', 'import 2019', 'referral', 'website'],
  note: [
    'met at the fair, call back in May',
    'do NOT call before 10',
    'moved from the old CRM',
    'speaks French',
  ],
} as const satisfies Readonly<Record<string, NonEmptyList<string>>>
