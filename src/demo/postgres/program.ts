import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { stat } from 'node:fs/promises'
import { DemoError } from '../settings.ts'

/** As whom a program runs, where it is somebody else than we are. */
export interface SystemAccount {
  readonly uid: number
  readonly gid: number
}

export interface ProgramOptions {
  readonly env: NodeJS.ProcessEnv
  readonly account: SystemAccount | null
  /** Not read, for a program whose children go on holding its output open. */
  readonly output?: 'read' | 'ignore'
}

export interface ProgramResult {
  /** Null where a signal ended it. */
  readonly code: number | null
  readonly output: string
  /** Why it could not be started at all: ENOENT, EACCES. */
  readonly startError: string | null
}

/**
 * Runs a program to its end. In a session of its own: a Ctrl-C in the terminal goes to all of the foreground, and would
 * end in the middle what is to be finished in order.
 */
export async function runProgram(
  file: string,
  args: readonly string[],
  { env, account, output = 'read' }: ProgramOptions,
): Promise<ProgramResult> {
  const pipe = output === 'read' ? 'pipe' : 'ignore'
  const child = spawn(file, args, {
    ...account,
    env: withoutPostgresSettings(env),
    stdio: ['ignore', pipe, pipe],
    detached: true,
    windowsHide: true,
    // Where an account of its own runs the program, our working folder may be closed to it.
    ...(account !== null && { cwd: '/' }),
  })
  const ended = new Promise<Pick<ProgramResult, 'code' | 'startError'>>((resolve) => {
    child.once('error', (error: NodeJS.ErrnoException) =>
      resolve({ code: null, startError: error.code ?? error.message }),
    )
    child.once('exit', (code) => resolve({ code, startError: null }))
  })
  const said = Promise.all([read(child.stdout), read(child.stderr)])
  const end = await ended
  return { ...end, output: end.startError === null ? (await said).join('').trim() : '' }
}

const read = (stream: Readable | null): Promise<string> =>
  stream === null ? Promise.resolve('') : text(stream)

/** PGDATA, PGPORT, PGOPTIONS and the like are about another server. LC_ALL: messages are read here, so in English. */
export function withoutPostgresSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    ...Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('PG'))),
    LC_ALL: 'C',
  }
}

/** Postgres refuses to run as root. Both exist on most machines, so that none need be made for a demo. */
const CANDIDATES = ['postgres', 'nobody'] as const

/**
 * As whom Postgres runs: as we are, or as an unprivileged account where we are root.
 * @throws DemoProblem where there is no such account
 */
export async function findServerAccount(env: NodeJS.ProcessEnv): Promise<SystemAccount | null> {
  if (process.getuid?.() !== 0) return null
  for (const name of CANDIDATES) {
    const uid = await readUserId(name, '-u', env)
    const gid = await readUserId(name, '-g', env)
    if (uid !== null && gid !== null) return { uid, gid }
  }
  throw new DemoError(
    'Postgres does not run as root, and this machine has neither a user postgres nor a user nobody to run it as.\nRun the demo as another user, or make one: useradd postgres',
  )
}

/** As whom the server of this data folder runs: as its owner, who may be another than for a new one. */
export async function findDataOwner(
  data: string,
  account: SystemAccount | null,
): Promise<SystemAccount | null> {
  const folder = account === null ? null : await stat(data).catch(() => null)
  return folder === null || folder.uid === 0 ? account : { uid: folder.uid, gid: folder.gid }
}

async function readUserId(user: string, which: '-u' | '-g', env: NodeJS.ProcessEnv): Promise<number | null> {
  const { code, output } = await runProgram('id', [which, user], { env, account: null })
  return code === 0 && /^\d+$/.test(output) ? Number(output) : null
}

/** Whether the account may pass through the folder and all that are above it. Asked of the system, which also knows ACLs. */
export async function canEnter(
  folder: string,
  account: SystemAccount,
  env: NodeJS.ProcessEnv,
): Promise<boolean> {
  return (await runProgram('/bin/sh', ['-c', 'cd -- "$0"', folder], { env, account })).code === 0
}
