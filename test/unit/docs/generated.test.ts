import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { commandsPage } from '../../../scripts/docs/commands.ts'
import { configurationPage } from '../../../scripts/docs/configuration.ts'
import { jsonPage, listFields, OPTIONAL, reportsSchema } from '../../../scripts/docs/json.ts'
import { logsPage } from '../../../scripts/docs/logs.ts'
import { notificationsPage } from '../../../scripts/docs/notifications.ts'
import { OWN_TABLES } from '../../../src/store/erase.ts'

const pages = ['README.md', 'CONTRIBUTING.md', ...globSync('docs/**/*.md')]

/** Ignores the formatting of tables. */
const plain = (text: string): string => text.replaceAll(/-{3,}/g, '---').replaceAll(/\s+/g, ' ')

test.each([
  ['cli.md', commandsPage],
  ['configuration.md', configurationPage],
  ['json.md', jsonPage],
  ['logs.md', logsPage],
  ['notifications.md', notificationsPage],
])('docs/%s is up to date: npm run docs', (name, page) => {
  expect(plain(readFileSync(`docs/${name}`, 'utf8'))).toBe(plain(page()))
})

test('every internal link leads to an existing file and heading', () => {
  const broken = pages.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].flatMap(
      ([, path = '', anchor]) => {
        const target = path === '' ? file : join(dirname(file), path)
        const found = globSync(target.replace(/\/$/, '')).length > 0
        if (!found) return [`${file}: ${path}`]
        if (anchor === undefined || anchors(target).has(anchor)) return []
        return [`${file}: ${path}#${anchor}`]
      },
    ),
  )
  expect(broken).toEqual([])
})

function anchors(file: string): Set<string> {
  return new Set(
    [...readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}

test('how-it-works.md lists every table', () => {
  const page = readFileSync('docs/how-it-works.md', 'utf8')
  expect(OWN_TABLES.filter((name) => !page.includes(`| \`${name}\``))).toEqual([])
})

test('fillrate-json.schema.json is up to date: npm run docs', () => {
  expect(JSON.parse(readFileSync('fillrate-json.schema.json', 'utf8'))).toEqual(reportsSchema())
})

test('each field of the promised JSON has a meaning, and a name in snake_case', () => {
  const { $defs } = reportsSchema()
  const fields = Object.values($defs).flatMap((schema) => listFields(schema, '', $defs))
  expect(fields.length).toBeGreaterThan(300)
  expect(fields.filter(([path = '']) => !/^`[a-z][a-z0-9_.*[\]]*`$/.test(path))).toEqual([])
  expect(fields.filter(([, , meaning = '']) => meaning.replace(OPTIONAL, '') === '')).toEqual([])
})

test('every npm script that the documentation names exists', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
  const named = pages.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/npm run ([\w:]+)/g)].map(([, name = '']) => name),
  )
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter((name) => scripts[name] === undefined)).toEqual([])
})

test('every file, function and folder that architecture.md names exists', () => {
  const page = readFileSync('docs/internals/architecture.md', 'utf8')
  const references = [...page.matchAll(/`((?:[a-z][\w.-]*\/)*[a-z][\w.-]*\.ts)(?::(\w+))?`/g)]
  expect(references.length).toBeGreaterThan(50)
  const missing = references.flatMap(([reference, path = '', name]) => {
    const file = [`src/${path}`, path].find((one) => existsSync(one))
    if (file === undefined) return path === 'file.ts' ? [] : [reference]
    const isDeclared = new RegExp(`\\b(?:function\\*?|class|const|interface|type) ${name}\\b`)
    return name === undefined || isDeclared.test(readFileSync(file, 'utf8')) ? [] : [reference]
  })
  const folders = [...page.matchAll(/`((?:test|bench|migrations)\/[\w./-]*)`/g)]
  expect([...missing, ...folders.map(([, path = '']) => path).filter((path) => !existsSync(path))]).toEqual(
    [],
  )
})

test('a number beside a constant in architecture.md is its value', () => {
  const page = readFileSync('docs/internals/architecture.md', 'utf8')
  const numbers = [...page.matchAll(/([\d,]+) \(`([\w./-]+\.ts):([A-Z_]+)`\)/g)]
  expect(numbers.length).toBeGreaterThan(0)
  for (const [, number = '', file = '', name = ''] of numbers) {
    const value = new RegExp(`const ${name} = ([\\d_]+)`).exec(readFileSync(`src/${file}`, 'utf8'))?.[1]
    expect([name, value?.replaceAll('_', '')]).toEqual([name, number.replaceAll(',', '')])
  }
})

test('every test that reliability.md names exists', () => {
  const page = readFileSync('docs/reliability.md', 'utf8')
  const named = [...page.matchAll(/^Tests: ([\s\S]*?)\n\n/gm)]
    .flatMap(([, list = '']) => [...list.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name))
    .filter((name) => !name.startsWith('npm '))
  expect(named.length).toBeGreaterThan(20)
  const exists = (name: string): boolean =>
    globSync([`test/**/${name}.test.ts`, `test/**/${name}.mocked.test.ts`, `test/${name}`]).length > 0
  expect(named.filter((name) => !exists(name))).toEqual([])
})
