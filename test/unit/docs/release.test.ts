import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { VERSIONED_FILES } from '../../../scripts/version.ts'

// What a release and the project's page need, as far as it can be verified without the host of the repository.

const read = (path: string): string => readFileSync(path, 'utf8')
const { version, scripts } = JSON.parse(read('package.json')) as {
  version: string
  scripts: Record<string, string>
}

interface Workflow {
  readonly permissions: Record<string, string>
  readonly jobs: Record<
    string,
    {
      readonly 'timeout-minutes': number
      readonly strategy?: { readonly matrix: Record<string, readonly string[]> }
      readonly steps: readonly {
        readonly uses?: string
        readonly run?: string
        readonly with?: Record<string, unknown>
      }[]
    }
  >
}
const workflows = globSync('.github/workflows/*.yml').map(
  (path) => [path, parse(read(path)) as Workflow] as const,
)

test('the workflows call pinned actions and existing npm scripts, with few rights and a time limit', () => {
  expect(workflows.map(([path]) => path).toSorted()).toEqual([
    '.github/workflows/ci.yml',
    '.github/workflows/release.yml',
  ])
  for (const [path, { permissions, jobs }] of workflows) {
    expect(Object.values(permissions).filter((one) => one !== 'read')).toEqual([])
    // The comment names the version of the commit.
    const uses = read(path).match(/uses: .*/g) ?? []
    expect(uses.filter((one) => !/^uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(one))).toEqual([])
    for (const [name, job] of Object.entries(jobs)) {
      expect([path, name, job['timeout-minutes'] > 0]).toEqual([path, name, true])
      const commands = job.steps.flatMap(({ run = '' }) => run.split('\n'))
      const named = commands.flatMap((one) => /^npm run ([\w:]+)/.exec(one)?.[1] ?? [])
      expect(named.filter((script) => scripts[script] === undefined)).toEqual([])
      // Later steps need no token of the repository.
      const checkouts = job.steps.filter(({ uses: action }) => action?.startsWith('actions/checkout@'))
      expect(checkouts.map(({ with: given }) => given?.['persist-credentials'])).toEqual([false])
    }
  }
})

test('CI tries each supported Node and Postgres', () => {
  const jobs = new Map(workflows).get('.github/workflows/ci.yml')?.jobs
  expect(jobs?.['node']?.strategy?.matrix['node']?.[0]).toBe('22.22')
  expect(jobs?.['postgres']?.strategy?.matrix['postgres']).toEqual(['14', '15', '16', '17', '18'])
})

test('each update of dependencies has a schedule, and each form what its host demands', () => {
  const { updates } = parse(read('.github/dependabot.yml')) as {
    updates: { 'package-ecosystem': string; directory: string; schedule: { interval: string } }[]
  }
  expect(updates.map((one) => one['package-ecosystem'])).toEqual(['npm', 'github-actions', 'docker'])
  expect(updates.filter(({ schedule }) => schedule.interval !== 'weekly')).toEqual([])
  const forms = globSync('.github/ISSUE_TEMPLATE/*.yml').filter((path) => !path.endsWith('/config.yml'))
  expect(forms.length).toBe(3)
  for (const path of forms) {
    const form = parse(read(path)) as {
      name: string
      description: string
      body: { type: string; id?: string; attributes: { label?: string; value?: string } }[]
    }
    expect([path, typeof form.name, typeof form.description]).toEqual([path, 'string', 'string'])
    const fields = form.body.filter(({ type }) => type !== 'markdown')
    expect(fields.filter(({ attributes }) => attributes.label === undefined)).toEqual([])
    expect(new Set(fields.map(({ id }) => id)).size).toBe(fields.length)
  }
})

test('every file that states the version states that of package.json', () => {
  expect(VERSIONED_FILES.filter((path) => !read(path).includes(version))).toEqual([])
})
