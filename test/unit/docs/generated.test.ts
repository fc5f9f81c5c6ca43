import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { commandsPage } from '../../../scripts/docs/commands.ts'
import { configurationPage } from '../../../scripts/docs/configuration.ts'

/** As the formatter leaves a table is no matter. */
const plain = (text: string): string => text.replaceAll(/-{3,}/g, '---').replaceAll(/\s+/g, ' ')

test.each([
  ['cli.md', commandsPage],
  ['configuration.md', configurationPage],
])('docs/%s is what the program says of itself: else npm run docs', (name, page) => {
  expect(plain(readFileSync(`docs/${name}`, 'utf8'))).toBe(plain(page()))
})

test('every link between our own pages leads to a file, and to a heading where it names one', () => {
  const broken = ['README.md', ...globSync('docs/*.md')].flatMap((file) =>
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

test('how it works tells of every table', () => {
  const told = readFileSync('docs/how-it-works.md', 'utf8')
  const tables = [...readFileSync('src/store/schema.ts', 'utf8').matchAll(/'fillrate\.(\w+)': \{/g)].map(
    ([, name]) => name ?? '',
  )
  expect(tables.length).toBeGreaterThan(15)
  expect(tables.filter((name) => !told.includes(`| \`${name}\``))).toEqual([])
})
