import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { Postmaster } from './postmaster.ts'

/** Waits for the end of its input, and ends the server then, unless another has taken its place. */
const SCRIPT = 'read -r _; [ "$(head -n 1 "$1")" = "$2" ] && kill -INT "$2"'

export interface Guard {
  /** The server is stopped: nothing to guard any more. */
  dismiss(): void
}

/**
 * Sees to it that the server ends when we do, even by SIGKILL: a shell holds the other end of a pipe, which the system
 * closes with us. Without it, a killed demo leaves a server behind that nobody knows of.
 */
export function guardServer(data: string, { pid }: Postmaster): Guard {
  // On Windows there is no shell for it; the next demo ends such a server.
  if (process.platform === 'win32') return { dismiss: () => {} }
  const shell = spawn('/bin/sh', ['-c', SCRIPT, 'sh', join(data, 'postmaster.pid'), String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    cwd: '/',
    env: {},
  })
  shell.once('error', () => {})
  shell.stdin.once('error', () => {})
  shell.unref()
  ;(shell.stdin as Socket).unref()
  return { dismiss: () => void shell.kill('SIGKILL') }
}
