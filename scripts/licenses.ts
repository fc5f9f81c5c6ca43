import { readFileSync } from 'node:fs'
import { join } from 'node:path'

// Verifies the licences of all packages in package-lock.json: node scripts/licenses.ts. What is installed with Fillrate
// must permit that without conditions for the user's own programs.

const ROOT = join(import.meta.dirname, '..')

/** Attribution is all that they demand: each package brings its text. */
const PERMISSIVE = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'ISC',
  'MIT',
])
/** Fine for tools, which no user installs. */
const FOR_TOOLS = new Set([...PERMISSIVE, 'CC0-1.0', 'MPL-2.0', 'Python-2.0', 'Unlicense'])

interface Locked {
  readonly version: string
  readonly license?: string
  readonly dev?: boolean
}

const read = <T>(path: string): T => JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as T
const { packages } = read<{ packages: Record<string, Locked> }>('package-lock.json')

const refused = Object.entries(packages).flatMap(([path, one]) => {
  if (path === '') return []
  const name = path.split('node_modules/').at(-1) ?? ''
  const isTool = one.dev === true
  const license = one.license ?? olderStatement(path)
  const allowed = isTool ? FOR_TOOLS : PERMISSIVE
  return permits(license, allowed)
    ? []
    : [`${name} ${one.version}: ${license} (${isTool ? 'tool' : 'installed'})`]
})
if (refused.length > 0) {
  console.error(`These licences are not in the lists of scripts/licenses.ts:\n  ${refused.join('\n  ')}`)
  process.exitCode = 1
} else console.log(`${Object.keys(packages).length - 1} packages: all licences are permitted.`)

/** A choice, `(MIT OR CC0-1.0)`, needs one that is permitted; a conjunction all. */
function permits(license: string, allowed: ReadonlySet<string>): boolean {
  return license
    .replaceAll(/[()]/g, '')
    .split(' OR ')
    .some((choice) => choice.split(' AND ').every((id) => allowed.has(id)))
}

/** Packages from before SPDX list objects, which the lock file leaves out. */
function olderStatement(path: string): string {
  const { licenses = [] } = read<{ licenses?: { type: string }[] }>(`${path}/package.json`)
  return licenses.length === 0 ? 'none stated' : licenses.map(({ type }) => type).join(' OR ')
}
