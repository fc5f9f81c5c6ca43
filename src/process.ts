import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { printError, runCli, wantsJson } from './cli/cli.ts'
import { type Context, Exit, type Invocation } from './cli/command.ts'
import { Output } from './cli/terminal.ts'
import { ConfigProblems } from './config/problems.ts'

// The process: environment, signals and exit code. Only this file and main.ts use `process`.

/** How long a process may live after its command has ended, in milliseconds. */
const EXIT_MS = 5_000

const args = process.argv.slice(2)
let dotenvError = loadDotenv()
const isDumb = process.env['TERM'] === 'dumb'
const stdout = new Output(process.stdout, { color: supportsColors(process.stdout), isDumb })
const stderr = new Output(process.stderr, { color: supportsColors(process.stderr), isDumb })
const interrupt = new AbortController()
let invocation: Invocation | null = null

/** @returns why `.env` cannot be read; null if it was read or there is none */
function loadDotenv(): string | null {
  try {
    // An editor's byte order mark would be a part of the first name.
    const variables = parseEnv(readFileSync('.env', 'utf8').replace(/^\ufeff/, ''))
    for (const [name, value] of Object.entries(variables)) process.env[name] ??= value
    return null
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return null
    return code === 'EISDIR' ? 'a directory' : `cannot be read: ${message}`
  }
}

/** Node's rule: FORCE_COLOR, which also colors pipes, then NO_COLOR and TERM on a terminal. */
function supportsColors(stream: NodeJS.WriteStream): boolean {
  const forced = process.env['FORCE_COLOR']
  if (forced !== undefined) return forced !== '0' && forced !== 'false'
  return stream.isTTY && stream.hasColors()
}

/**
 * @throws ConfigProblems once, if a command that reads the environment would run with a part of it: its variables may lead
 *   to another database than those of an unreadable `.env`
 */
function createContext(parsed: Invocation | null): Context {
  invocation = parsed
  if (dotenvError !== null && parsed !== null && parsed.command.readsEnvironment) {
    const found = dotenvError
    dotenvError = null
    throw new ConfigProblems('the environment', [
      { place: '.env', found, expected: 'a file of variables, or none', todo: 'Correct or remove it.' },
    ])
  }
  return {
    stdout,
    stderr,
    env: process.env,
    cwd: process.cwd(),
    signal: interrupt.signal,
    now: Date.now,
  }
}

function onSignal(): void {
  // The command is over: nothing would react.
  if (process.exitCode !== undefined) process.exit()
  const message = invocation?.command.onInterrupt ?? null
  if (message === null || interrupt.signal.aborted) process.exit(Exit.interrupted)
  stderr.line(`fillrate: ${message}`)
  interrupt.abort()
}

function onUnexpectedError(error: unknown): void {
  process.exit(printError(error, createContext(invocation), wantsJson(args)))
}

// The reader of our output may stop early (`| head`), which is not an error.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
process.on('SIGINT', onSignal)
process.on('SIGTERM', onSignal)
process.on('uncaughtException', onUnexpectedError)
process.on('unhandledRejection', onUnexpectedError)
process.on('exit', () => stderr.live(''))

process.exitCode = await runCli({ words: args, contextFor: createContext })
// The command is over and its output written. What keeps the event loop alive now is a fault, and the process of a service
// that has ended must not stay.
setTimeout(() => process.exit(), EXIT_MS).unref()
