import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, readlink, realpath, rm } from 'node:fs/promises'
import { type AddressInfo, type Socket, createServer } from 'node:net'
import { join } from 'node:path'
import { DemoError } from '../settings.ts'
import { type ClusterPrograms, dataFolder } from './cluster.ts'
import { runProgram } from './program.ts'

export interface PostgresServerOptions extends ClusterPrograms {
  readonly home: string
}

const WAIT_SECONDS = '60'

/**
 * Starts the server on a free loopback port, in its own session, so that a Ctrl-C does not reach it while a run saves
 * its state.
 * @returns false if the port or the folder was taken in the meantime: try again
 * @throws DemoError with the server's output
 */
export async function startServer(options: PostgresServerOptions): Promise<boolean> {
  const data = dataFolder(options.home)
  const log = join(data, 'server.log')
  await rm(log, { force: true })
  const { code, output } = await runProgram(
    options.binaries.pgCtl,
    ['start', '-D', data, '-l', log, '-o', `-p ${await freePort()}`, '-w', '-t', WAIT_SECONDS, '-s'],
    // On Windows the server would keep the output of pg_ctl open.
    { ...options, output: process.platform === 'win32' ? 'ignore' : 'read' },
  )
  if (code === 0) return true
  const said = await readFile(log, 'utf8').catch(() => output)
  if (/could not bind|already in use|already exists|still in use|Only one usage/.test(said)) return false
  throw new DemoError(
    `The embedded Postgres did not start:\n${said.trim().split('\n').slice(-12).join('\n')}`,
  )
}

/**
 * Stops the server and waits for it. Connections are closed, committed data are safe. No error if it is stopped
 * already.
 */
export async function stopServer(options: PostgresServerOptions): Promise<void> {
  await runProgram(
    options.binaries.pgCtl,
    ['stop', '-D', dataFolder(options.home), '-m', 'fast', '-w', '-t', WAIT_SECONDS, '-s'],
    options,
  )
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Waits for the end of its input, then stops the server, unless another one has replaced it. */
const GUARD_SCRIPT = 'read -r _; [ "$(head -n 1 "$1")" = "$2" ] && kill -INT "$2"'

/**
 * Stops the server when this process ends, even by SIGKILL: a shell holds the other end of a pipe, which the system
 * closes with the process. Otherwise a killed demo would leave a stray server.
 * @returns ends the guard, once the server is stopped
 */
export function guardServer(data: string, { pid }: Postmaster): () => void {
  // Windows has no such shell; the next demo stops the server.
  if (process.platform === 'win32') return () => {}
  const shell = spawn('/bin/sh', ['-c', GUARD_SCRIPT, 'sh', join(data, 'postmaster.pid'), String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    cwd: '/',
    env: {},
  })
  shell.once('error', () => {})
  shell.stdin.once('error', () => {})
  shell.unref()
  ;(shell.stdin as Socket).unref()
  return () => void shell.kill('SIGKILL')
}

/** The server recorded in the data folder. */
interface Postmaster {
  readonly pid: number
  readonly port: number
}

/** Reads `postmaster.pid`: the process on its first line, the port on its fourth. The file outlives a crash. */
export async function readPostmaster(data: string): Promise<Postmaster | null> {
  const text = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => null)
  return text === null ? null : parsePostmaster(text)
}

/** Null for a partly written file. Pure. */
export function parsePostmaster(text: string): Postmaster | null {
  const lines = text.split(/\r?\n/)
  const [pid, port] = [Number(lines[0]), Number(lines[3])]
  return Number.isInteger(pid) && pid > 1 && Number.isInteger(port) && port > 0 ? { pid, port } : null
}

/**
 * Whether the process exists and is the server of this folder. After a crash its number may belong to another
 * process, especially in a container, where numbers are low and reused.
 */
export async function isServerRunning(
  data: string,
  { pid }: Postmaster,
  env: NodeJS.ProcessEnv,
): Promise<boolean> {
  if (!isAlive(pid)) return false
  // A server's working directory is its data folder.
  const folder = await readlink(`/proc/${pid}/cwd`).catch(() => null)
  if (folder !== null) return folder === (await realpath(data))
  const { code, output } = await runProgram('ps', ['-o', 'args=', '-p', String(pid)], { env, account: null })
  // Without /proc and ps, assume it is; the connection attempt decides.
  return code === 0 ? output.includes(data) : true
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
