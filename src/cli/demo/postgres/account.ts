import { stat } from 'node:fs/promises'
import { DemoProblem } from '../problem.ts'
import { runProgram, type Account } from './program.ts'

/** Postgres refuses to run as root. Both exist on most machines, so that none need be made for a demo. */
const CANDIDATES = ['postgres', 'nobody'] as const

/**
 * As whom Postgres runs: as we are, or as an unprivileged account where we are root.
 * @throws DemoProblem where there is no such account
 */
export async function findAccount(env: NodeJS.ProcessEnv): Promise<Account | null> {
  if (process.getuid?.() !== 0) return null
  for (const name of CANDIDATES) {
    const uid = await idOf(name, '-u', env)
    const gid = await idOf(name, '-g', env)
    if (uid !== null && gid !== null) return { uid, gid }
  }
  throw new DemoProblem(
    'Postgres does not run as root, and this machine has neither a user postgres nor a user nobody to run it as.\nRun the demo as another user, or make one: useradd postgres',
  )
}

/** As whom the server of this data folder runs: as its owner, who may be another than for a new one. */
export async function ownerOf(data: string, account: Account | null): Promise<Account | null> {
  const folder = account === null ? null : await stat(data).catch(() => null)
  return folder === null || folder.uid === 0 ? account : { uid: folder.uid, gid: folder.gid }
}

async function idOf(user: string, which: '-u' | '-g', env: NodeJS.ProcessEnv): Promise<number | null> {
  const { code, output } = await runProgram('id', [which, user], { env, account: null })
  return code === 0 && /^\d+$/.test(output) ? Number(output) : null
}

/** Whether the account may pass through the folder and all that are above it. Asked of the system, which also knows ACLs. */
export async function mayEnter(folder: string, account: Account, env: NodeJS.ProcessEnv): Promise<boolean> {
  return (await runProgram('/bin/sh', ['-c', 'cd -- "$0"', folder], { env, account })).code === 0
}
