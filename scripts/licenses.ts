import { readFileSync } from 'node:fs'
import { join } from 'node:path'

// Verifies the licences of all packages in package-lock.json: node scripts/licenses.ts. What is bundled in the published program, or
// is installed beside it, must permit that without conditions for the user's own programs.

const ROOT = join(import.meta.dirname, '..')

/** Attribution is all that they demand; dist/LICENSES.txt passes their texts on. */
const PERMISSIVE = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'ISC',
  'MIT',
])
/** Fine for tools, whose code is not published. */
const FOR_TOOLS = new Set([...PERMISSIVE, 'CC0-1.0', 'MPL-2.0', 'Python-2.0', 'Unlicense'])

interface Locked {
  readonly version: string
  readonly license?: string
  readonly dev?: boolean
}
interface Bom {
  readonly components: readonly { readonly name: string; readonly version: string }[]
}

const read = <T>(path: string): T => JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as T
const { packages } = read<{ packages: Record<string, Locked> }>('package-lock.json')
const { components } = read<Bom>('dist/sbom.cdx.json')
const bundled = new Set(components.map(({ name, version }) => `${name} ${version}`))

const refused = Object.entries(packages).flatMap(([path, one]) => {
  if (path === '') return []
  const name = path.split('node_modules/').at(-1) ?? ''
  const isPublished = one.dev !== true || bundled.has(`${name} ${one.version}`)
  const license = one.license ?? olderStatement(path)
  const allowed = isPublished ? PERMISSIVE : FOR_TOOLS
  return permits(license, allowed)
    ? []
    : [`${name} ${one.version}: ${license} (${isPublished ? 'published' : 'tool'})`]
})
if (refused.length > 0) {
  console.error(`These licences are not in the lists of scripts/licenses.ts:\n  ${refused.join('\n  ')}`)
  process.exitCode = 1
} else
  console.log(
    `${Object.keys(packages).length - 1} packages, ${bundled.size} of them bundled: all licences are permitted.`,
  )

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
