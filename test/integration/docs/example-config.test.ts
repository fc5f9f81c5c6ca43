import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import type { Finding } from '../../../src/cli/check/finding.ts'
import { codeBlocks, fromSources } from '../../support/code-blocks.ts'
import { copyExampleServices } from '../../support/example-services.ts'
import { openCommandLine } from '../cli/command-line.ts'

// The schema that fillrate.config.example.ts and the configurations of README and docs are written for.
const SCHEMA = `
  create schema crm;
  create type crm.seniority as enum ('Executive', 'VP', 'Director', 'Manager', 'Other');
  create table crm.accounts (
    id bigint generated always as identity primary key,
    name text not null,
    domain text unique,
    website text,
    industry text,
    employees integer,
    city text,
    country text,
    technologies text
  );
  create table crm.contacts (
    id bigint generated always as identity primary key,
    account_id bigint references crm.accounts,
    employer_id bigint references crm.accounts,
    first_name text,
    last_name text,
    email text,
    linkedin text,
    twitter text,
    title text,
    headline varchar(40),
    phone text,
    seniority crm.seniority,
    attributes jsonb not null default '{}',
    confidence real,
    enriched_at timestamptz,
    updated_at timestamptz not null default now(),
    deleted_at timestamptz
  );
  create index on crm.contacts (updated_at);
  insert into crm.accounts (name, domain, website) values ('Acme', 'acme.example', 'https://acme.example');
  insert into crm.contacts (account_id, email) values (1, 'ada@acme.example')`

const { cli, here } = await openCommandLine({ prepare: (pool) => pool.query(SCHEMA) })
await copyExampleServices(cli.folder)

async function check(config: string): Promise<readonly Finding[]> {
  const { stdout } = await here(['check', '--json', '--config', config])
  return (JSON.parse(stdout) as { checks: Finding[] }).checks
}

/** The findings about configuration and sources that are not in order, with their places. */
const remarks = (checks: readonly Finding[]): string[] =>
  checks
    .filter(({ name, verdict }) => /^(?:configuration|source)/.test(name) && verdict !== 'ok')
    .flatMap(({ name, verdict, problems }) => problems.map(({ place }) => `${verdict}: ${name}: ${place}`))

test('the example configuration passes check, without a warning about its sources', async () => {
  const checks = await check(resolve('fillrate.config.example.ts'))
  expect(remarks(checks)).toEqual([])
  // Its triggers are installed by a command of its own.
  const wrong = checks.filter(({ verdict }) => verdict === 'error')
  expect(wrong.map(({ name }) => name)).toEqual(['follow contacts'])
})

// Each guide has tables of its own, and a test that runs its configuration.
const blocks = codeBlocks().filter(
  ({ file, language, code }) =>
    language === 'ts' && code.includes('export default defineConfig') && !file.startsWith('docs/guides/'),
)

test.each(blocks.map((block) => [`${block.file}:${block.line}`, block] as const))(
  'the configuration of %s passes check',
  async (name, { code }) => {
    const file = join(cli.folder, `${name.replaceAll(/\W/g, '-')}.ts`)
    await writeFile(file, fromSources(code))
    expect(remarks(await check(file))).toEqual([])
  },
)
