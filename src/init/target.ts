import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { basename, dirname, extname, resolve } from 'node:path'
import { CONFIG_FILES } from '../config/load.ts'
import { ConfigProblems } from '../config/problems.ts'

export interface ConfigTarget {
  readonly path: string
  /** The path as shown to the user. */
  readonly displayPath: string
  /** Whether every command finds it without `--config`. */
  readonly isFound: boolean
  readonly force: boolean
}

/**
 * Resolves where the configuration goes. Called before the database is read, to fail early if the file cannot be
 * written.
 * @throws ConfigProblems if the file exists, or has the wrong extension
 */
export function resolveConfigTarget(options: {
  readonly cwd: string
  readonly out: string | null
  readonly force: boolean
}): ConfigTarget {
  const { cwd, out, force } = options
  const displayPath = out ?? CONFIG_FILES[0]
  const path = resolve(cwd, displayPath)
  const isFound = CONFIG_FILES.some((name) => name === basename(path)) && dirname(path) === resolve(cwd)
  // JSON has no comments, and what is not in force is one.
  const extensions = CONFIG_FILES.map((name) => extname(name)).filter((name) => name !== '.json')
  const refuse = (found: string, expected: string, todo: string | null = null): ConfigProblems =>
    new ConfigProblems('the command', [{ place: displayPath, found, expected, todo }])
  if (!extensions.includes(extname(path)))
    throw refuse(
      'a file extension that `init` does not write',
      `a name that ends in ${extensions.join(', ')}`,
    )
  if (!force && existsSync(path))
    throw refuse(
      'the file exists',
      'a new file: existing files are not overwritten',
      'Write to another file with --out FILE and compare the two, or overwrite it with --force.',
    )
  // A second configuration in the folder would silently take precedence over this one, or be ignored.
  const other = CONFIG_FILES.find(
    (name) => isFound && name !== basename(path) && existsSync(resolve(cwd, name)),
  )
  if (other !== undefined)
    throw refuse(
      `${other} is in the same folder`,
      'one configuration in a folder: only the first would be read',
      `Move ${other} away, or name another file with --out and use it with --config.`,
    )
  return { path, displayPath, isFound, force }
}

/** Writes the file. Never overwrites one created in the meantime, unless forced. */
export async function writeConfig({ path, displayPath, force }: ConfigTarget, text: string): Promise<void> {
  try {
    await writeFile(path, text, { flag: force ? 'w' : 'wx' })
  } catch (cause) {
    const problem = {
      place: displayPath,
      found: (cause as Error).message,
      expected: 'a new file in a folder that may be written',
      todo: 'Choose another file with --out.',
    }
    throw new ConfigProblems('the command', [problem], { cause })
  }
}
