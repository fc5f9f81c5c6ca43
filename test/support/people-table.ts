import type { ServiceDefinition } from '../../src/domain/service/adapter.ts'
import { createFillrate, type Fillrate, type FillrateOptions } from '../../src/fillrate.ts'
import type { TestDatabase } from './clone.ts'

let tables = 0

/** A table of people, and its source, which has its name. */
export interface PeopleTable {
  readonly name: string
  readonly sources: Readonly<Record<string, object>>
}

/** Creates a table whose nth row is `pn@NAME.example`, for one test. */
export async function createPeopleTable(
  { query }: Pick<TestDatabase, 'query'>,
  count: number,
  outputs: Readonly<Record<string, string>> = { title: 'title' },
): Promise<PeopleTable> {
  const name = `people${++tables}`
  await query(`
    create table ${name} (id int primary key, email text, title text, phone text);
    insert into ${name} select n, 'p' || n || '@${name}.example' from generate_series(1, ${count}) n`)
  return { name, sources: { [name]: { kind: 'person', table: name, inputs: { email: 't.email' }, outputs } } }
}

/** What a test chooses beside its service. */
export interface ServiceSettings {
  /** Default: 2. */
  readonly concurrency?: number
  /** More of the configuration. */
  readonly config?: object
  /** More of the environment. */
  readonly env?: Readonly<Record<string, string>>
}

/** A configuration and an environment with one service, whose jobs are given up as soon as they have ended. */
export const toOptions = (
  { url: databaseUrl }: Pick<TestDatabase, 'url'>,
  adapter: ServiceDefinition,
  sources: object,
  { url }: { readonly url: string },
  { concurrency = 2, config = {}, env = {} }: ServiceSettings = {},
) =>
  ({
    config: {
      service: { adapter, concurrency },
      sources: sources as never,
      bulk: { grace: '0s' },
      ...config,
    },
    env: { DATABASE_URL: databaseUrl, FILLRATE_BASE_URL: url, FILLRATE_API_KEY: 'key-1', ...env },
  }) as const satisfies FillrateOptions

/** Opens Fillrate in this process with one service. */
export const openService = (...options: Parameters<typeof toOptions>): Promise<Fillrate> =>
  createFillrate(toOptions(...options))

/** How many rows have the title of their own address, and how many another one. */
export const countTitles = async ({ query }: Pick<TestDatabase, 'query'>, name: string) =>
  (
    await query<{ own: number; others: number }>(
      `select count(*) filter (where title = 'Title of ' || email)::int as own,
              count(*) filter (where title <> 'Title of ' || email)::int as others from ${name}`,
    )
  )[0]
