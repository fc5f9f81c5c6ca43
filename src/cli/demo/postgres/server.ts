import { readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { DemoProblem } from '../problem.ts'
import type { Binaries } from './binaries.ts'
import { dataOf } from './cluster.ts'
import { runProgram, type Account } from './program.ts'

export interface ServerOptions {
  readonly home: string
  readonly binaries: Binaries
  readonly account: Account | null
  readonly env: NodeJS.ProcessEnv
}

const SECONDS = '60'

/**
 * Starts the server on a free port of loopback, in a session of its own, so that a Ctrl-C in the terminal does not reach
 * it while a run still saves its state.
 * @returns false where the port or the folder was taken meanwhile: then it is worth another try
 * @throws DemoProblem with what the server said
 */
export async function startServer(options: ServerOptions): Promise<boolean> {
  const data = dataOf(options.home)
  const log = join(data, 'server.log')
  await rm(log, { force: true })
  const { code, output, startError } = await runProgram(
    options.binaries.pgCtl,
    ['start', '-D', data, '-l', log, '-o', `-p ${await freePort()}`, '-w', '-t', SECONDS, '-s'],
    // On Windows the server would hold the output of pg_ctl open.
    { ...options, output: process.platform === 'win32' ? 'ignore' : 'read' },
  )
  if (code === 0) return true
  const said = startError ?? (await readFile(log, 'utf8').catch(() => output))
  if (/could not bind|already in use|already exists|still in use|Only one usage/.test(said)) return false
  throw new DemoProblem(
    `The embedded Postgres did not start:\n${said.trim().split('\n').slice(-12).join('\n')}`,
  )
}

/** Stops the server and waits for it; connections are ended, what is committed is safe. Fine where it has ended already. */
export async function stopServer(options: ServerOptions): Promise<void> {
  await runProgram(
    options.binaries.pgCtl,
    ['stop', '-D', dataOf(options.home), '-m', 'fast', '-w', '-t', SECONDS, '-s'],
    options,
  )
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
