import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { CONFIG_FILES } from '../config/load.ts'
import { ConfigProblems } from '../config/problems.ts'

/** What `init` writes. */
const DRAFT_FILE = CONFIG_FILES[0]

const refuse = (found: string, todo: string | null, cause?: unknown): ConfigProblems =>
  new ConfigProblems(
    'the command',
    [{ place: DRAFT_FILE, found, expected: 'a new file in a folder without a configuration', todo }],
    { cause },
  )

/**
 * Refuses a folder that has a configuration: it would be overwritten, or the draft would be ignored. Called before the
 * database is read, to fail early.
 * @throws ConfigProblems
 */
export function refuseConfigured(cwd: string): void {
  const existing = CONFIG_FILES.find((name) => existsSync(resolve(cwd, name)))
  if (existing !== undefined)
    throw refuse(`${existing} is in this folder`, `Move ${existing} away, or draft in another folder.`)
}

/** Writes the file, and never overwrites one created in the meantime. @returns its path */
export async function writeDraft(cwd: string, text: string): Promise<string> {
  const path = resolve(cwd, DRAFT_FILE)
  try {
    await writeFile(path, text, { flag: 'wx' })
    return path
  } catch (cause) {
    throw refuse((cause as Error).message, null, cause)
  }
}
