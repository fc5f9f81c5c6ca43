import type { NonEmptyList } from './rng.ts'

/** Words that made-up records consist of. Any resemblance is accidental. */

// prettier-ignore
export const firstNames: NonEmptyList<string> = [
  'Amara', 'Anna', 'Åsa', 'Ben', 'Carlos', 'Chiara', 'Chloé', 'Daniel', 'Dmitri', 'Elena', 'Emma', 'Farah',
  'Grace', 'Hiroshi', 'Ingrid', 'Isaac', 'Jonas', 'José', 'Julia', 'Kofi', 'Laura', 'Leila', 'Liam', 'Lucía',
  'Maria', 'Mateo', 'Mei', 'Nadia', 'Noah', 'Olga', 'Omar', 'Øyvind', 'Priya', 'Rachel', 'Ravi', 'Samuel',
  'Sofia', 'Tariq', 'Thomas', 'Yuki',
]

// prettier-ignore
export const lastNames: NonEmptyList<string> = [
  'Abara', 'Andersen', 'Bauer', 'Berg', 'Bianchi', 'Brown', 'Chen', 'Cohen', 'Costa', 'Dubois', 'Eriksson',
  'Fischer', 'García', 'Haddad', 'Hansen', 'Ivanova', 'Jansen', 'Johnson', 'Kaya', 'Kim', 'Kowalski', 'Kumar',
  'Larsen', 'López', 'Martin', 'Mbeki', 'Meyer', 'Murphy', 'Müller', 'Nakamura', 'Nguyen', 'Novák', "O'Brien",
  'Okafor', 'Olsen', 'Patel', 'Rossi', 'Sato', 'Schmidt', 'Silva', 'Smith', 'Taylor', 'Van Dijk', 'Weber',
  'Williams', 'Wilson', 'Yılmaz', 'Zhang',
]

export interface Department {
  readonly department: string
  readonly field: string
  readonly chief: string
  readonly roles: NonEmptyList<string>
}

// prettier-ignore
export const departments: NonEmptyList<Department> = [
  { department: 'engineering', field: 'Engineering', chief: 'Chief Technology Officer', roles: ['Software Engineer', 'Data Engineer', 'Site Reliability Engineer'] },
  { department: 'sales', field: 'Sales', chief: 'Chief Revenue Officer', roles: ['Account Executive', 'Sales Representative', 'Sales Engineer'] },
  { department: 'marketing', field: 'Marketing', chief: 'Chief Marketing Officer', roles: ['Content Strategist', 'Growth Marketer', 'Brand Specialist'] },
  { department: 'finance', field: 'Finance', chief: 'Chief Financial Officer', roles: ['Accountant', 'Financial Analyst'] },
  { department: 'operations', field: 'Operations', chief: 'Chief Operating Officer', roles: ['Operations Analyst', 'Logistics Coordinator'] },
  { department: 'support', field: 'Customer Success', chief: 'Chief Customer Officer', roles: ['Support Specialist', 'Onboarding Specialist'] },
]

export interface FixturePlace {
  readonly city: string
  readonly state: string
  readonly country: string
  /** The calling code, the first digit of a number, and how many digits follow it. */
  readonly dial: readonly [code: string, first: string, digits: number]
  readonly company: string
}

// prettier-ignore
export const places: NonEmptyList<FixturePlace> = [
  { city: 'Austin', state: 'Texas', country: 'United States', dial: ['1', '5', 9], company: 'Inc.' },
  { city: 'Boston', state: 'Massachusetts', country: 'United States', dial: ['1', '6', 9], company: 'LLC' },
  { city: 'Oslo', state: 'Oslo', country: 'Norway', dial: ['47', '9', 7], company: 'AS' },
  { city: 'München', state: 'Bayern', country: 'Germany', dial: ['49', '1', 10], company: 'GmbH' },
  { city: 'Valencia', state: 'Comunidad Valenciana', country: 'Spain', dial: ['34', '6', 8], company: 'S.L.' },
  { city: 'Pune', state: 'Maharashtra', country: 'India', dial: ['91', '9', 9], company: 'Pvt. Ltd.' },
]

export interface Industry {
  readonly industry: string
  readonly parts: NonEmptyList<string>
}

// prettier-ignore
export const industries: NonEmptyList<Industry> = [
  { industry: 'Software', parts: ['Business Software', 'Developer Tools', 'Security Software'] },
  { industry: 'Manufacturing', parts: ['Machinery', 'Electronics', 'Packaging'] },
  { industry: 'Financial Services', parts: ['Banking', 'Insurance', 'Payments'] },
  { industry: 'Health Care', parts: ['Medical Devices', 'Hospitals', 'Biotechnology'] },
  { industry: 'Retail', parts: ['Grocery', 'Fashion', 'Home Goods'] },
]

// prettier-ignore
export const technologies: NonEmptyList<string> = [
  'PostgreSQL', 'React', 'Kubernetes', 'Terraform', 'Kafka', 'Redis', 'Salesforce', 'HubSpot', 'Stripe',
  'Snowflake', 'dbt', 'Airflow', 'Go', 'TypeScript', 'Python', 'Grafana',
]
