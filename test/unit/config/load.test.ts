import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { personSource } from '../../support/crm.ts'

/** The part of a configuration that these tests compare. */
const body = (table: string) =>
  `{ sources: { contacts: { kind: 'person', table: '${table}', inputs: { email: 't.email' }, outputs: { title: 'title' } } } }`
const json = JSON.stringify({ sources: { contacts: personSource('from_json', { title: 'title' }) } })

/** A field of the other kind, a policy, a unit and half of a pair, each wrong. */
const mistakes = {
  sources: {
    contacts: {
      kind: 'person',
      table: 'people',
      inputs: { email: 't.email', name: 't.name' },
      outputs: { a: 'industry', b: { field: 'titel', policy: 'blnk' } },
    },
  },
  refreshAfter: '90',
}

const files: Record<string, string> = {
  'ts/fillrate.config.ts': `import { defineConfig } from 'fillrate'\nconst table: string = 'from_ts'\nexport default defineConfig(${body('from_ts').replace("'from_ts'", 'table')})\n`,
  'ts/fillrate.config.json': json,
  'mts/fillrate.config.mts': `export default ${body('from_mts')} as const\n`,
  'js/fillrate.config.js': `import { defineConfig } from 'fillrate'\nexport default defineConfig(${body('from_js')})\n`,
  'mjs/fillrate.config.mjs': `export default Promise.resolve(${body('from_mjs')})\n`,
  'json/fillrate.config.json': `\ufeff${json}`,
  'commonjs/package.json': '{ "type": "commonjs" }',
  'commonjs/fillrate.config.ts': `import { table } from './table.ts'\nimport { defineConfig } from 'fillrate'\nexport default defineConfig(${body('x').replace("'x'", 'table')})\n`,
  'commonjs/table.ts': "export const table: string = 'from_commonjs'\n",
  'commonjs/old.js': `module.exports = ${body('from_old_js')}\n`,
  'library/own.mjs': `import { testService, defineConfig } from 'fillrate'\nexport default defineConfig(${body('x').replace("'x'", 'testService.name')})\n`,
  'several/fillrate.config.json': JSON.stringify({
    services: {
      acme: {},
      pdl: { adapter: './services/pdl.ts' },
      old: { adapter: './services/old.js', concurrency: 2 },
    },
    sources: {
      contacts: {
        ...JSON.parse(json).sources.contacts,
        outputs: { title: { acme: 'title', pdl: 'job', old: 'role' } },
      },
    },
  }),
  'several/services/pdl.ts': `import { defineService } from 'fillrate'\nexport default defineService({ name: 'PDL', person: { path: '/pdl' }, fields: { person: { job: 'text' } } })\n`,
  'several/services/old.js': "module.exports = { name: 'Old', person: { path: '/old' } }\n",
  'wrong/services/broken.ts': "export default { name: 'Broken', person: { path: 'find' } }\n",
  'wrong/several.json': JSON.stringify({
    services: { acme: {}, broken: { adapter: './services/broken.ts' } },
    sources: JSON.parse(json).sources,
  }),
  'wrong/throws.ts': `type Unused = string\n\nfunction fail(): never {\n  throw new Error('no such thing as postgres://jane:s3cret@db')\n}\nexport default fail()\n`,
  'wrong/colours.mjs': "throw new Error('\\u001b[31mred\\u001b[0m\\u0007')\n",
  'wrong/throws-text.mjs': "throw 'a text'\n",
  'wrong/syntax.ts': 'const a = 1\nexport default { a: , b }\n',
  'wrong/syntax.mjs': 'const a = 1\nexport default { a: , b }\n',
  'wrong/syntax.js': 'import a from "node:fs"\nexport default {\n',
  'wrong/enum.ts': 'enum Kind { person }\nexport default Kind\n',
  'wrong/import.ts': "import { table } from './nowhere'\nexport default { table }\n",
  'wrong/name.ts': "import { nothing } from '../commonjs/table.ts'\nexport default { nothing }\n",
  'wrong/deep.ts': "import '../wrong/throws.ts'\nexport default {}\n",
  'wrong/none.ts': `export const config = ${body('none')}\n`,
  'wrong/text.ts': "export default 'contacts'\n",
  'wrong/broken.json': '{\n  "sources": {\n    "contacts": { "kind": "person",, }\n  }\n}\n',
  'wrong/short.json': '{\n  "sources": {\n',
  'wrong/content.json': '{ "sources": { "contacts": { "kind": "person" } } }',
  'wrong/mistakes.json': JSON.stringify(mistakes),
  'wrong/mistakes.ts': `import { defineConfig } from 'fillrate'\n// @ts-expect-error\nexport default defineConfig(${JSON.stringify(mistakes)})\n`,
  'wrong/fillrate.yaml': 'sources: {}\n',
}

interface Loaded {
  readonly table?: string
  readonly path?: string | null
  /** Name, name in its description, and concurrent calls of each. */
  readonly services?: readonly unknown[]
  readonly message?: string
  readonly problems?: ReadonlyArray<{ place: string; found: string; expected: string; todo: string | null }>
  readonly cause?: string | null
}

interface Case {
  readonly cwd: string
  readonly path?: string
}

const LOADER = `
  import { createInterface } from 'node:readline'
  import { loadConfig } from ${JSON.stringify(new URL('../../../src/config/load.ts', import.meta.url).href)}
  for await (const line of createInterface({ input: process.stdin })) {
    const results = []
    for (const options of JSON.parse(line)) {
      try {
        const config = await loadConfig(options)
        results.push({ table: Object.values(config.sources)[0].table, path: config.path, ...(config.serviceNames.length > 0 && { services: config.services.map((one) => [one.name, one.adapter.name, one.concurrency]) }) })
      } catch (error) {
        const cause = error.cause === undefined ? null : String(error.cause?.name ?? error.cause)
        results.push({ message: error.message, problems: error.problems, cause })
      }
    }
    console.log(JSON.stringify(results))
  }`

/**
 * Loads in a Node of its own, one after another: vitest would run the imports through Vite, which resolves
 * and transforms modules by other rules than the `node` that Fillrate runs in.
 */
const node = spawn(process.execPath, ['--input-type=module', '-e', LOADER])
const answers = createInterface({ input: node.stdout })[Symbol.asyncIterator]()
let stderr = ''
node.stderr.on('data', (text: Buffer) => (stderr += text.toString()))

async function loadInNode(cases: readonly Case[]): Promise<{ loaded: Loaded[]; stderr: string }> {
  stderr = ''
  node.stdin.write(`${JSON.stringify(cases)}\n`)
  const { value } = await answers.next()
  return { loaded: JSON.parse(String(value)) as Loaded[], stderr }
}

let folder = ''

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'fillrate-config-')))
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true })
    await writeFile(join(folder, name), content)
  }
  await mkdir(join(folder, 'empty'))
  await symlink(join(folder, 'commonjs'), join(folder, 'linked'))
})

afterAll(async () => {
  node.stdin.end()
  await rm(folder, { recursive: true })
})

describe('a configuration file', () => {
  test('is found and read in each of its forms', async () => {
    const found = ['ts', 'mts', 'js', 'mjs', 'json', 'commonjs'].map((name) => ({ cwd: join(folder, name) }))
    const named = ['commonjs/old.js', join(folder, 'library/own.mjs'), 'linked/fillrate.config.ts'].map(
      (path) => ({ cwd: folder, path }),
    )
    const { loaded, stderr } = await loadInNode([...found, ...named])
    expect(loaded).toEqual([
      { table: 'from_ts', path: join(folder, 'ts/fillrate.config.ts') },
      { table: 'from_mts', path: join(folder, 'mts/fillrate.config.mts') },
      { table: 'from_js', path: join(folder, 'js/fillrate.config.js') },
      { table: 'from_mjs', path: join(folder, 'mjs/fillrate.config.mjs') },
      { table: 'from_json', path: join(folder, 'json/fillrate.config.json') },
      { table: 'from_commonjs', path: join(folder, 'commonjs/fillrate.config.ts') },
      { table: 'from_old_js', path: join(folder, 'commonjs/old.js') },
      { table: 'testService', path: join(folder, 'library/own.mjs') },
      { table: 'from_commonjs', path: join(folder, 'linked/fillrate.config.ts') },
    ])
    expect(stderr).toBe('')
  })

  test('has its services in modules beside it', async () => {
    const { loaded } = await loadInNode([
      { cwd: join(folder, 'several') },
      { cwd: folder, path: 'wrong/several.json' },
    ])
    expect(loaded[0]).toMatchObject({
      table: 'from_json',
      services: [
        ['acme', expect.any(String), 32],
        ['pdl', 'PDL', 32],
        ['old', 'Old', 2],
      ],
    })
    expect(loaded[1]?.problems?.map(({ place }) => place)).toEqual([
      `${join(folder, 'wrong/services/broken.ts')}: person.path`,
    ])
  })

  test('is in the root of this repository as an example', async () => {
    const root = fileURLToPath(new URL('../../..', import.meta.url))
    const { loaded } = await loadInNode([{ cwd: root, path: 'fillrate.config.example.ts' }])
    expect(loaded).toEqual([{ table: 'crm.contacts', path: join(root, 'fillrate.config.example.ts') }])
  })
})

describe('an invalid configuration file', () => {
  const one = (found: unknown, expected: string, todo: string | null = null) => ({
    found,
    expected: expect.stringContaining(expected),
    todo: todo === null ? null : expect.stringContaining(todo),
  })
  const exported = 'exports a configuration by default'
  const kinds = '.ts, .mts, .js, .mjs or .json'

  /** Path, place after it, problem, and the name of the cause. */
  const wrong: ReadonlyArray<readonly [string, string, ReturnType<typeof one>, string | null]> = [
    [
      'wrong/nowhere.ts',
      '',
      one(expect.stringContaining('ENOENT: no such file'), kinds, 'fillrate init'),
      'Error',
    ],
    ['wrong', '', one(expect.stringContaining('EISDIR'), kinds, 'fillrate init'), 'Error'],
    ['wrong/fillrate.yaml', '', one('a .yaml file', kinds), null],
    ['wrong/none.ts', '', one('no default export', 'export default defineConfig'), null],
    ['wrong/text.ts', '', one("a default export that is 'contacts'", 'export default defineConfig'), null],
    ['wrong/throws.ts', ':4:9', one('Error: no such thing as postgres://jane:***@db', exported), 'Error'],
    ['wrong/colours.mjs', ':1:7', one('Error: red', exported), 'Error'],
    ['wrong/throws-text.mjs', '', one('a throw of a text', exported), 'a text'],
    ['wrong/syntax.ts', ':2:21', one('SyntaxError: Expression expected', exported), 'SyntaxError'],
    ['wrong/syntax.mjs', ':2:21', one('SyntaxError: Expression expected', exported), 'SyntaxError'],
    ['wrong/syntax.js', ':2', one(expect.stringContaining('SyntaxError: '), exported), 'SyntaxError'],
    [
      'wrong/enum.ts',
      ':1:1',
      one('SyntaxError: TypeScript enum is not supported in strip-only mode', exported),
      'SyntaxError',
    ],
    [
      'wrong/name.ts',
      ':1:10',
      one(
        "SyntaxError: The requested module '../commonjs/table.ts' does not provide an export named 'nothing'",
        exported,
      ),
      'SyntaxError',
    ],
    [
      'wrong/broken.json',
      ':3:36',
      one('Expected double-quoted property name in JSON at position 52', 'JSON', 'no comments'),
      'SyntaxError',
    ],
    [
      'wrong/short.json',
      ':3:1',
      one("Expected property name or '}' in JSON at position 17", 'JSON', 'no comments'),
      'SyntaxError',
    ],
  ]

  test('is reported with its place', async () => {
    const { loaded } = await loadInNode(wrong.map(([path]) => ({ cwd: folder, path })))
    expect(loaded.map(({ problems, cause }) => ({ problems, cause }))).toEqual(
      wrong.map(([path, place, problem, cause]) => ({
        problems: [{ place: join(folder, path) + place, ...problem }],
        cause,
      })),
    )
    for (const [index, [path]] of wrong.entries()) {
      expect(loaded[index]?.message).toContain(`1 problem in ${join(folder, path)}:`)
      expect(loaded[index]?.message).not.toMatch(/s3cret|fillrate-read/)
    }
  })

  test('is reported in the imported module at fault', async () => {
    const { loaded } = await loadInNode(
      ['wrong/import.ts', 'wrong/deep.ts'].map((path) => ({ cwd: folder, path })),
    )
    expect(loaded[0]?.problems?.[0]).toMatchObject({
      place: join(folder, 'wrong/import.ts'),
      found: `Error: Cannot find module '${join(folder, 'wrong/nowhere')}' imported from ${join(folder, 'wrong/import.ts')}`,
    })
    expect(loaded[1]?.problems?.[0]?.place).toBe(join(folder, 'wrong/throws.ts:4:9'))
  })

  test('is reported by its content and its place', async () => {
    const { loaded } = await loadInNode([{ cwd: folder, path: 'wrong/content.json' }])
    expect(loaded[0]?.message).toMatch(
      new RegExp(`^3 problems in ${join(folder, 'wrong/content.json')}:\n\n  sources\\.contacts\\.table\n`),
    )
  })

  test('is reported in the same words in every format', async () => {
    const paths = ['wrong/mistakes.json', 'wrong/mistakes.ts']
    const { loaded } = await loadInNode(paths.map((path) => ({ cwd: folder, path })))
    const [fromJson, fromCode] = loaded
    expect(fromJson?.problems?.map(({ place }) => place)).toEqual([
      'sources.contacts.inputs.company',
      'sources.contacts.outputs.a',
      'sources.contacts.outputs.b.field',
      'sources.contacts.outputs.b.policy',
      'refreshAfter',
    ])
    expect(fromCode?.problems).toEqual(fromJson?.problems)
  })

  test('or that there is none', async () => {
    const cwd = join(folder, 'empty')
    const { loaded } = await loadInNode([{ cwd }])
    expect(loaded[0]?.problems).toEqual([
      {
        place: cwd,
        found: 'no configuration',
        expected:
          'one of fillrate.config.ts, fillrate.config.mts, fillrate.config.js, fillrate.config.mjs, fillrate.config.json',
        todo: expect.stringContaining('fillrate init'),
      },
    ])
  })
})
