import type pg from 'pg'
import { afterAll, expect } from 'vitest'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { type Sandbox, startSandbox } from '../../../src/sandbox/server.ts'
import { type CommandLine, createCommandLine, type Ended } from '../../support/cli.ts'
import { crmConfig } from '../../support/crm.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { runProgram } from '../../support/program.ts'

interface OpenedCommandLine {
  readonly database: TestDatabase
  readonly sandbox: Sandbox
  /** Runs commands as a user does, in processes of their own. */
  readonly cli: CommandLine
  /** Runs a command in this process, which takes a tenth of the time; undefined removes a variable. */
  readonly here: (words: readonly string[], changes?: NodeJS.ProcessEnv) => Promise<Ended>
  /** Runs a line in this process, which ends with this code. @returns what was written, as one line */
  readonly say: (line: string, code: number) => Promise<string>
  /** The same with `--json`. @returns what was written, read */
  readonly json: <T>(line: string, code: number) => Promise<T>
}

/** A database, the sandbox as the service, and a folder with a configuration, until the tests of the file are over. */
export async function openCommandLine({
  prepare,
  service = {},
  config = crmConfig,
}: {
  readonly prepare: (pool: pg.Pool) => Promise<unknown>
  readonly service?: Partial<SandboxOptions>
  readonly config?: unknown
}): Promise<OpenedCommandLine> {
  const database = await createTestDatabase()
  await prepare(database.pool)
  const sandbox = await startSandbox(service)
  const cli = await createCommandLine(database.url, sandbox, config)
  afterAll(async () => {
    await cli.remove()
    await sandbox.close()
    await database.drop()
  })
  const here: OpenedCommandLine['here'] = (words, changes = {}) =>
    runProgram({ cwd: cli.folder, env: { ...cli.environment, ...changes } }, ...words)
  const end = async (line: string, code: number): Promise<Ended> => {
    const ended = await here(line.split(' '))
    expect(ended.code, `${line}: ${ended.stdout}${ended.stderr}`).toBe(code)
    return ended
  }
  const say: OpenedCommandLine['say'] = async (line, code) => {
    const { stdout, stderr } = await end(line, code)
    return `${stdout}${stderr}`.replaceAll(/\s+/g, ' ')
  }
  const json = async <T>(line: string, code: number): Promise<T> =>
    JSON.parse((await end(`${line} --json`, code)).stdout) as T
  return { database, sandbox, cli, here, say, json }
}
