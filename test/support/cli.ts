import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { MAX_TEST_CONNECTIONS, type ReachableSandbox, variablesFor } from './environment.ts'

const SOURCE = resolve(import.meta.dirname, '../../src/main.ts')

/** The program that tests start: the bundle of this test run, or where none was made the source. */
export const programPath = (): string => process.env['TEST_PROGRAM'] ?? SOURCE

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Started {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
}

/** A folder with a configuration, as a user has one, in which the command line is run. */
export interface CommandLine {
  readonly folder: string
  /** The environment of a command. */
  readonly environment: NodeJS.ProcessEnv
  start(...args: string[]): Started
  /** The same with changed variables; undefined removes one. */
  startWith(environment: Record<string, string | undefined>, ...args: string[]): Started
  run(...args: string[]): Promise<Ended>
  /** The same with changed variables; undefined removes one. */
  runWith(environment: Record<string, string | undefined>, ...args: string[]): Promise<Ended>
  configure(config: unknown): Promise<void>
  remove(): Promise<void>
}

/**
 * @param services the only one, or several by their names in the configuration
 * @param program the main module of another version. Default: today's
 */
export async function createCommandLine(
  databaseUrl: string,
  services: ReachableSandbox | Readonly<Record<string, ReachableSandbox>>,
  config: unknown,
  program = programPath(),
): Promise<CommandLine> {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-cli-'))
  const environment = {
    PATH: process.env['PATH'],
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    DATABASE_URL: databaseUrl,
    ...variablesFor(services),
    FILLRATE_MAX_CONNECTIONS: String(MAX_TEST_CONNECTIONS),
  }
  const start = (changes: Record<string, string | undefined>, args: readonly string[]): Started => {
    const child = spawn(process.execPath, [program, ...args], {
      cwd: folder,
      env: { ...environment, ...changes },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    const ended = new Promise<Ended>((done, fail) => {
      child.once('error', fail)
      child.once('close', (code) => done({ code, stdout, stderr }))
    })
    return { child, ended }
  }
  const configure = (value: unknown): Promise<void> =>
    writeFile(
      join(folder, 'fillrate.config.json'),
      typeof value === 'string' ? value : JSON.stringify(value, null, 2),
    )
  await configure(config)
  return {
    folder,
    environment,
    start: (...args) => start({}, args),
    startWith: (changes, ...args) => start(changes, args),
    run: (...args) => start({}, args).ended,
    runWith: (changes, ...args) => start(changes, args).ended,
    configure,
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
