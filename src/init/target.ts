import { access, writeFile } from 'node:fs/promises'
import { basename, dirname, extname, resolve } from 'node:path'
import { CONFIG_FILES } from '../config/load.ts'
import { ConfigProblems } from '../config/problems.ts'

export interface ConfigTarget {
  readonly path: string
  /** The path as shown to the user. */
  readonly displayPath: string
  /** JSON has no comments. */
  readonly isJson: boolean
  readonly force: boolean
}

const EXTENSIONS = CONFIG_FILES.map((name) => extname(name))

/**
 * Resolves where the configuration goes. Called before the database is read, to fail early if the file cannot be
 * written.
 * @throws ConfigProblems if the file exists, or has the wrong extension
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
      'a file extension that is not a configuration',
      `a name that ends in ${EXTENSIONS.join(', ')}`,
      null,
    )
  if (!force && (await fileExists(path))) throw alreadyExists(displayPath)
  // A second configuration in the folder would silently take precedence over this one, or be ignored.
  const names: readonly string[] = CONFIG_FILES
  const isFound = names.includes(basename(path)) && dirname(path) === resolve(cwd)
  for (const name of isFound ? names : [])
    if (name !== basename(path) && (await fileExists(resolve(cwd, name)))) throw shadowedBy(displayPath, name)
  return { path, displayPath, isJson: extname(path) === '.json', force }
}

/** Writes the file. Never overwrites one created in the meantime, unless forced. */
export async function writeConfig({ path, displayPath, force }: ConfigTarget, text: string): Promise<void> {
  try {
    await writeFile(path, text, { flag: force ? 'w' : 'wx' })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') throw alreadyExists(displayPath)
    throw commandProblem(
      displayPath,
      (cause as Error).message,
      'a writable file',
      'Choose another file with --out.',
      cause,
    )
  }
}

const fileExists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

const alreadyExists = (shown: string): ConfigProblems =>
  commandProblem(
    shown,
    'the file exists',
    'a new file: existing files are not overwritten',
    'Write to another file with --out FILE and compare the two, or overwrite it with --force.',
  )

const shadowedBy = (shown: string, other: string): ConfigProblems =>
  commandProblem(
    shown,
    `${other} is in the same folder`,
    'one configuration in a folder: only the first would be read',
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
