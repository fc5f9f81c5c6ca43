import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { commandsPage } from '../../../scripts/docs/commands.ts'
import { configurationPage } from '../../../scripts/docs/configuration.ts'

const pages = ['README.md', 'CONTRIBUTING.md', ...globSync('docs/*.md')]

/** Ignores the formatting of tables. */
const plain = (text: string): string => text.replaceAll(/-{3,}/g, '---').replaceAll(/\s+/g, ' ')

test.each([
  ['cli.md', commandsPage],
  ['configuration.md', configurationPage],
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
  const tables = [...readFileSync('src/store/schema.ts', 'utf8').matchAll(/'fillrate\.(\w+)': \{/g)].map(
    ([, name]) => name ?? '',
  )
  expect(tables.length).toBeGreaterThan(15)
  expect(tables.filter((name) => !page.includes(`| \`${name}\``))).toEqual([])
})

test('every npm script that the documentation names exists', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
  const named = pages.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/npm run ([\w:]+)/g)].map(([, name = '']) => name),
  )
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter((name) => scripts[name] === undefined)).toEqual([])
})
