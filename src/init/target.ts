import { access, writeFile } from 'node:fs/promises'
import { basename, dirname, extname, resolve } from 'node:path'
import { CONFIG_FILES } from '../config/load.ts'
import { ConfigProblems } from '../config/problems.ts'

export interface ConfigTarget {
  readonly path: string
  /** As it is said to the user. */
  readonly displayPath: string
  /** Whether it holds JSON, which has no comments. */
  readonly isJson: boolean
  readonly force: boolean
}

const EXTENSIONS = CONFIG_FILES.map((name) => extname(name))

/**
 * Where the configuration goes. Looked at before anything is read, so that nobody waits for a proposal that can't be
 * written.
 * @throws ConfigProblems where something is there already, or the name says another kind of file
 */
export async function resolveConfigTarget(options: {
  readonly cwd: string
  readonly out: string | null
  readonly force: boolean
}): Promise<ConfigTarget> {
  const { cwd, out, force } = options
  const displayPath = out ?? CONFIG_FILES[0]
  const path = resolve(cwd, displayPath)
  if (!EXTENSIONS.includes(extname(path)))
    throw commandProblem(
      displayPath,
      'a file that is no configuration by its name',
      `a name that ends in ${EXTENSIONS.join(', ')}`,
      null,
    )
  if (!force && (await fileExists(path))) throw alreadyExists(displayPath)
  // One beside it would be read in its place, or no more, and nobody would know which.
  const names: readonly string[] = CONFIG_FILES
  const isFound = names.includes(basename(path)) && dirname(path) === resolve(cwd)
  for (const name of isFound ? names : [])
    if (name !== basename(path) && (await fileExists(resolve(cwd, name)))) throw shadowedBy(displayPath, name)
  return { path, displayPath, isJson: extname(path) === '.json', force }
}

/** Writes it, and never over a file that came to be there meanwhile. */
export async function writeConfig({ path, displayPath, force }: ConfigTarget, text: string): Promise<void> {
  try {
    await writeFile(path, text, { flag: force ? 'w' : 'wx' })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') throw alreadyExists(displayPath)
    throw commandProblem(
      displayPath,
      (cause as Error).message,
      'a file that can be written',
      'Name another one with --out.',
      cause,
    )
  }
}

async function fileExists(path: string): Promise<boolean> {
  try {
    await access(path)
    return true
  } catch {
    return false
  }
}

const alreadyExists = (shown: string): ConfigProblems =>
  commandProblem(
    shown,
    'there already',
    'a file that is not there yet: nothing is written over',
    'Write beside it with --out FILE and compare the two, or over it with --force.',
  )

const shadowedBy = (shown: string, other: string): ConfigProblems =>
  commandProblem(
    shown,
    `${other} is in the same folder`,
    'one configuration in a folder: of two, only the first would be read',
    `Move ${other} away, or name another file with --out and use it with --config.`,
  )

const commandProblem = (
  place: string,
  found: string,
  expected: string,
  todo: string | null,
  cause?: unknown,
): ConfigProblems =>
  new ConfigProblems('the command', [{ place, found, expected, todo }], cause === undefined ? {} : { cause })
