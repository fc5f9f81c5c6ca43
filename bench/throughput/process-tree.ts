import { readFile, readdir } from 'node:fs/promises'

/** The kernel's unit of CPU time, on every Linux that Node runs on. */
const TICK_MS = 10

/**
 * CPU time of a process and its children, including those that have exited, in milliseconds; null where there is no
 * /proc. Suited for Postgres, whose postmaster waits for each of its children.
 */
export async function treeCpuMs(pid: number): Promise<number | null> {
  const root = await times(String(pid))
  if (root === null) return null
  const others = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const children = (await Promise.all(others.map(times))).filter((one) => one?.parent === pid)
  return children.reduce((sum, child) => sum + (child?.ownMs ?? 0), root.ownMs + root.endedMs)
}

/** proc_pid_stat(5): after the name in brackets, field 4 is the parent, 14 to 17 are utime, stime, cutime, cstime. */
async function times(pid: string): Promise<{ parent: number; ownMs: number; endedMs: number } | null> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const ticks = (field: number): number => Number(fields[field - 3]) * TICK_MS
    return { parent: Number(fields[1]), ownMs: ticks(14) + ticks(15), endedMs: ticks(16) + ticks(17) }
  } catch {
    return null // exited, or not Linux
  }
}
