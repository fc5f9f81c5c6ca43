import { createHash } from 'node:crypto'
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { readResultTypes, type ResultTypes, ROOT } from './result-types.ts'

const CACHE = join(ROOT, 'node_modules/.cache/result-types.json')

interface CachedTypes {
  readonly digest: string
  readonly types: ResultTypes
}

/** Reads the types of results anew where `src` has changed: seconds of the compiler, which a run of single files is spared. */
export default function setup({ config }: TestProject): void {
  const digest = digestSource()
  if (readCachedTypes()?.digest === digest && !config.watch) return
  rmSync(CACHE, { force: true })
  if (config.watch || process.argv.some((one) => one.includes('.test'))) return
  mkdirSync(dirname(CACHE), { recursive: true })
  writeFileSync(CACHE, JSON.stringify({ digest, types: readResultTypes() } satisfies CachedTypes))
}

function digestSource(): string {
  const hash = createHash('sha256')
  for (const file of globSync('src/**/*.ts', { cwd: ROOT }).toSorted())
    hash.update(file).update(readFileSync(join(ROOT, file)))
  return hash.digest('hex')
}

/** Null: they are not known, and nothing is checked. */
export function readCachedTypes(): CachedTypes | null {
  try {
    return JSON.parse(readFileSync(CACHE, 'utf8')) as CachedTypes
  } catch {
    return null
  }
}
