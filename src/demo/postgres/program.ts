import { spawn } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { DemoError } from '../settings.ts'

/** The account that a program runs as, if not our own. */
export interface SystemAccount {
  readonly uid: number
  readonly gid: number
}

interface ProgramOptions {
  readonly env: NodeJS.ProcessEnv
  readonly account: SystemAccount | null
  /** Ignored for a program whose children keep its output open. */
  readonly output?: 'read' | 'ignore'
}

interface ProgramResult {
  /** Null if it could not start, or a signal ended it. */
  readonly code: number | null
  /** What it printed, or why it could not start: ENOENT, EACCES. */
  readonly output: string
}

/**
 * Runs a program to its end, in its own session: a Ctrl-C goes to the whole foreground group and would interrupt an
 * orderly shutdown.
 */
export function runProgram(
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
    // Another account may not be allowed to enter our working directory.
    ...(account !== null && { cwd: '/' }),
  })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (printed += text))
  return new Promise((resolve) => {
    child.once('error', (error: NodeJS.ErrnoException) =>
      resolve({ code: null, output: error.code ?? error.message }),
    )
    child.once('close', (code) => resolve({ code, output: printed.trim() }))
  })
}

/**
 * Removes PGDATA, PGPORT, PGOPTIONS and the like, which concern another server. LC_ALL: messages are parsed, so in
 * English.
 */
export function withoutPostgresSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    ...Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('PG'))),
    LC_ALL: 'C',
  }
}

/** Postgres does not run as root. Most machines have these accounts, so none need be created. */
const CANDIDATES = ['postgres', 'nobody'] as const

/**
 * The account that Postgres runs as: ours, or an unprivileged one if we are root.
 * @throws DemoError if there is no such account
 */
export async function findServerAccount(env: NodeJS.ProcessEnv): Promise<SystemAccount | null> {
  if (process.getuid?.() !== 0) return null
  for (const name of CANDIDATES) {
    const uid = await readUserId(name, '-u', env)
    const gid = await readUserId(name, '-g', env)
    if (uid !== null && gid !== null) return { uid, gid }
  }
  throw new DemoError(
    `Postgres does not run as root, and this machine has no user ${CANDIDATES.join(' or ')} to run it as.\nRun the demo as another user, or create one: useradd postgres`,
  )
}

/** The account of an existing data folder is its owner, who may differ from the one for a new folder. */
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

/** Whether the account may enter the folder and all above it. The shell checks, because it also respects ACLs. */
export async function canEnter(
  folder: string,
  account: SystemAccount,
  env: NodeJS.ProcessEnv,
): Promise<boolean> {
  return (await runProgram('/bin/sh', ['-c', 'cd -- "$0"', folder], { env, account })).code === 0
}
