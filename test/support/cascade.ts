import type pg from 'pg'
import { type PersonLookup, findPerson } from '../../src/sandbox/people.ts'

/** Half of all lookups find nothing, so that every path through a cascade is taken. */
export const HALF = { seed: 7, notFoundShare: 0.5, missingShare: 0 }

export const cascadeConfig = {
  sources: {
    people: {
      kind: 'person',
      table: 'people',
      cascade: true,
      inputs: { email: 't.email', linkedin_url: 't.linkedin', name: 't.name', company: 't.company' },
      minConfidence: 0,
      outputs: { title: 'title' },
    },
  },
  budget: 'unlimited',
} as const

/** Every 10th row shares the address of the one before it, every 7th has an invalid one, every 6th has no profile. */
export async function createPeople(pool: pg.Pool, count: number): Promise<void> {
  await pool.query(
    `create table people (id int primary key, email text, linkedin text, name text, company text, title text)`,
  )
  await pool.query(
    `insert into people (id, email, linkedin, name, company)
     select n, case when n % 7 = 0 then 'not an address' else 'p' || (case when n % 10 = 0 then n - 1 else n end) || '@example.com' end,
            case when n % 6 > 0 then 'https://www.linkedin.com/in/p-' || n end, 'Ada Nr' || n, 'Company ' || n
       from generate_series(1, $1::int) n`,
    [count],
  )
}

export interface Person {
  readonly id: number
  readonly email: string | null
  readonly linkedin: string | null
  readonly name: string
  readonly company: string
  readonly title: string | null
}

export const readPeople = async (pool: pg.Pool): Promise<Person[]> =>
  (await pool.query<Person>('select * from people order by id')).rows

/** The lookups requested for a person, in order, up to the first that finds a record. */
export function requestsFor(person: Person): { readonly requested: string[]; readonly title: string | null } {
  const requested: string[] = []
  for (const lookup of lookupsOf(person)) {
    requested.push(lookup.key)
    const record = findPerson(lookup, HALF)
    if (record) return { requested, title: record.title ?? null }
  }
  return { requested, title: null }
}

function lookupsOf({ email, linkedin, name, company }: Person): PersonLookup[] {
  const profile = linkedin?.replace('https://www.', '')
  return [
    ...(email?.includes('@') ? [{ kind: 'email', key: email } as const] : []),
    ...(profile ? [{ kind: 'linkedin', key: profile, url: `https://${profile}` } as const] : []),
    { kind: 'name', key: `name:${name}|${company}`.toLowerCase(), name, company },
  ]
}
