import { readFile, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { runProgram } from './program.ts'

/** The server that says, in the data folder, that it runs there. */
export interface Postmaster {
  readonly pid: number
  readonly port: number
}

/** What `postmaster.pid` says: the process on its first line, the port on its fourth. It outlives a crash. */
export async function readPostmaster(data: string): Promise<Postmaster | null> {
  const text = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => null)
  return text === null ? null : parsePostmaster(text)
}

/** Pure. Null for a file that was only half written. */
export function parsePostmaster(text: string): Postmaster | null {
  const lines = text.split(/\r?\n/)
  const [pid, port] = [Number(lines[0]), Number(lines[3])]
  return Number.isInteger(pid) && pid > 1 && Number.isInteger(port) && port > 0 ? { pid, port } : null
}

/**
 * Whether the process is there and is the server of this folder. After a crash its number may belong to another
 * process, above all in a container, where numbers are low and come again.
 */
export async function isServerOf(
  data: string,
  { pid }: Postmaster,
  env: NodeJS.ProcessEnv,
): Promise<boolean> {
  if (!isAlive(pid)) return false
  // A server works in its data folder.
  const folder = await readlink(`/proc/${pid}/cwd`).catch(() => null)
  if (folder !== null) return folder === (await realpath(data))
  const { code, output } = await runProgram('ps', ['-o', 'args=', '-p', String(pid)], { env, account: null })
  // Without /proc and ps it is believed: the server is asked next.
  return code === 0 ? output.includes(data) : true
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it is there, and somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
