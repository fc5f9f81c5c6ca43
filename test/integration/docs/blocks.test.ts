import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findCommand } from '../../../src/cli/commands.ts'
import { parseCommandLine } from '../../../src/cli/cli.ts'
import type { ExitCode } from '../../../src/cli/command.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { codeBlocks, fillrateLines, type CodeBlock } from '../../support/code-blocks.ts'
import { copyExampleServices } from '../../support/example-services.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { startHarness, type Harness } from '../../support/harness.ts'
import { runProgram } from '../../support/program.ts'

// Every snippet and command in the README and the documentation works as shown.

const run = promisify(execFile)
const blocks = codeBlocks()
const of = (language: string): CodeBlock[] => blocks.filter((block) => block.language === language)
const isConfig = ({ code }: CodeBlock): boolean => code.includes('export default defineConfig')
/** Imports from the sources: the package is neither built nor installed here. */
const fromSources = (code: string): string =>
  code.replaceAll("from 'fillrate'", `from '${resolve('src/index.ts')}'`)
const nameOf = ({ file, line }: CodeBlock): string => `${file.replaceAll(/[/.]/g, '-')}-${line}`

let harness: Harness
let folder: string
let cli: CommandLine
beforeAll(async () => {
  harness = await startHarness({
    config: crmConfig,
    prepare: async ({ pool }) => {
      await createCrm(pool, 40)
      // The row that the examples explain.
      await pool.query(
        `insert into crm.contacts (id, email) overriding system value values (4711, 'ada@example.com')`,
      )
    },
  })
  folder = await mkdtemp(join(tmpdir(), 'fillrate-blocks-'))
  await copyExampleServices(folder)
  cli = await createCommandLine(harness.database.url, harness.sandbox, crmConfig)
})
afterAll(async () => {
  await cli.remove()
  await rm(folder, { recursive: true, force: true })
  await harness.close()
})

test.each(
  of('ts')
    .filter(isConfig)
    .map((block) => [nameOf(block), block] as const),
)('%s is a valid configuration', async (name, block) => {
  const path = join(folder, `${name}.config.ts`)
  await writeFile(path, fromSources(block.code))
  expect(Object.keys((await loadConfig({ cwd: folder, path })).sources).length).toBeGreaterThan(0)
})

describe('programs', () => {
  test.each(
    of('ts')
      .filter((block) => !isConfig(block))
      .map((block) => [nameOf(block), block] as const),
  )('%s runs without an error', async (name, block) => {
    const path = join(folder, `${name}.ts`)
    // The placeholder address.
    const code = fromSources(block.code).replaceAll('https://api.enrichment.example', harness.sandbox.url)
    await writeFile(path, code)
    await writeFile(join(folder, 'fillrate.config.json'), JSON.stringify(crmConfig))
    const { stderr } = await run(process.execPath, [path], {
      cwd: folder,
      env: {
        DATABASE_URL: harness.database.url,
        FILLRATE_BASE_URL: harness.sandbox.url,
        FILLRATE_API_KEY: harness.sandbox.keys[0],
        API_KEY: harness.sandbox.keys[0],
      },
    })
    expect(stderr).toBe('')
  })
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
  const { url } = harness.database
  await harness.query('drop schema fillrate cascade')
  await harness.query('drop role if exists fillrate')
  await harness.query(grants.replace('database crm', `database ${new URL(url).pathname.slice(1)}`))
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
    await harness.query('drop owned by fillrate')
    await harness.query('drop role fillrate')
  }
})
