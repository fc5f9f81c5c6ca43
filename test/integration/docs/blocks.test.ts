import { execFile } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { findCommand } from '../../../src/cli/commands.ts'
import { parseCommandLine } from '../../../src/cli/cli.ts'
import type { ExitCode } from '../../../src/cli/command.ts'
import { codeBlocks, fillrateLines, fromSources, type CodeBlock } from '../../support/code-blocks.ts'
import { copyExampleServices } from '../../support/example-services.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runProgram } from '../../support/program.ts'
import { openCommandLine } from '../cli/command-line.ts'

// Every snippet and command in the README and the documentation works as shown.

const run = promisify(execFile)
const blocks = codeBlocks()
const of = (language: string): CodeBlock[] => blocks.filter((block) => block.language === language)
const isConfig = ({ code }: CodeBlock): boolean => code.includes('export default defineConfig')
const nameOf = ({ file, line }: CodeBlock): string => `${file.replaceAll(/[/.]/g, '-')}-${line}`

const { database, sandbox, cli } = await openCommandLine({
  prepare: async (pool) => {
    await createCrm(pool, 40)
    // The row that the examples explain.
    await pool.query(
      `insert into crm.contacts (id, email) overriding system value values (4711, 'ada@example.com')`,
    )
  },
})
await copyExampleServices(cli.folder)

test.each(
  of('ts')
    .filter((block) => !isConfig(block))
    .map((block) => [nameOf(block), block] as const),
)('the program of %s runs without an error', async (name, block) => {
  const path = join(cli.folder, `${name}.ts`)
  // The placeholder address.
  const code = fromSources(block.code).replaceAll('https://api.enrichment.example', sandbox.url)
  await writeFile(path, code)
  const env = { ...cli.environment, API_KEY: sandbox.keys[0] }
  expect((await run(process.execPath, [path], { cwd: cli.folder, env })).stderr).toBe('')
})

test('every command line parses', () => {
  const lines = of('sh').flatMap((block) => fillrateLines(block.code))
  expect(lines.length).toBeGreaterThan(20)
  for (const words of lines) parseCommandLine(words)
})

test('the commands of getting-started.md work in order', async () => {
  const page = blocks.filter((block) => block.file === 'docs/getting-started.md')
  const config = page.find(isConfig)?.code ?? ''
  await rm(join(cli.folder, 'fillrate.config.json'), { force: true })
  await writeFile(join(cli.folder, 'fillrate.config.ts'), fromSources(config))
  // `init` prompts; `serve` and `start` run until stopped.
  const interactive = new Set(['init', 'serve', 'start'])
  const lines = page
    .filter((block) => block.language === 'sh')
    .flatMap((block) => fillrateLines(block.code))
    .filter(([verb = '']) => !interactive.has(verb))
  expect(lines.map(([verb]) => verb).join(' ')).toBe(
    'check migrate plan run run status run failures explain runs undo run',
  )
  for (const words of lines) {
    const { code, stdout, stderr } = await runProgram({ cwd: cli.folder, env: cli.environment }, ...words)
    const exits = findCommand(words[0])?.exits ?? []
    expect([exits.includes((code ?? 1) as ExitCode) && code !== 1 && code !== 2, stdout + stderr]).toEqual([
      true,
      stdout + stderr,
    ])
  }
})

test('the grants in operations.md are sufficient', async () => {
  const grants =
    blocks.find((block) => block.file === 'docs/operations.md' && block.language === 'sql')?.code ?? ''
  const { url } = database
  await database.query('drop schema fillrate cascade')
  await database.query('drop role if exists fillrate')
  await database.query(grants.replace('database crm', `database ${new URL(url).pathname.slice(1)}`))
  const address = new URL(url)
  address.username = 'fillrate'
  address.password = 'change me'
  const own = { cwd: cli.folder, env: { ...cli.environment, DATABASE_URL: address.href } }
  try {
    await cli.configure({
      ...crmConfig,
      sources: {
        contacts: {
          ...crmConfig.sources.contacts,
          outputs: { title: 'title', phone: 'phone' },
        },
      },
    })
    await rm(join(cli.folder, 'fillrate.config.ts'), { force: true })
    expect(await runProgram(own, 'migrate')).toMatchObject({ code: 0, stderr: '' })
    const ended = await runProgram(own, 'run', '--json', '--route', 'sync')
    expect(JSON.parse(ended.stdout)).toMatchObject({ status: 'completed', rows: { write_rejected: 0 } })
  } finally {
    await database.query('drop owned by fillrate')
    await database.query('drop role fillrate')
  }
})
