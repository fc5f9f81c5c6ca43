import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'

/** As whom a program runs, where it is somebody else than we are. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

export interface ProgramOptions {
  readonly env: NodeJS.ProcessEnv
  readonly account: Account | null
  /** Not read, for a program whose children go on holding its output open. */
  readonly output?: 'read' | 'ignore'
}

export interface ProgramEnd {
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
): Promise<ProgramEnd> {
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
  const ended = new Promise<Pick<ProgramEnd, 'code' | 'startError'>>((resolve) => {
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
