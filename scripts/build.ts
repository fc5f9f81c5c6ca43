import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bundleProgram } from './bundle.ts'

// Builds the published program into dist: npm run build. TypeScript writes the declarations, rolldown the code.

const ROOT = join(import.meta.dirname, '..')
const DIST = join(ROOT, 'dist')
const CHART = join(ROOT, 'node_modules/uplot')

rmSync(DIST, { recursive: true, force: true })
const { status } = spawnSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], {
  cwd: ROOT,
  stdio: 'inherit',
})
if (status !== 0) process.exit(1)

const output = await bundleProgram(DIST)

const packages = new Map<string, string>()
for (const file of output)
  for (const id of file.type === 'chunk' ? file.moduleIds : []) {
    const folder = /^(?:.*[\\/])?node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(id)?.[0]
    if (folder !== undefined) packages.set(packageName(folder), folder)
  }
writeFileSync(join(DIST, 'LICENSES.txt'), licenses(packages))
// Not bundled, but a part of the image: the dashboard serves this package's file.
packages.set(packageName(CHART), CHART)
writeFileSync(join(DIST, 'sbom.cdx.json'), bom(packages))

function packageName(folder: string): string {
  const { name, version } = readPackage(folder)
  return `${name} ${version}`
}

function readPackage(folder: string): { name: string; version: string; license?: string } {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    name: string
    version: string
    license?: string
  }
}

/** The licences of the bundled packages demand that their texts are passed on. */
function licenses(folders: ReadonlyMap<string, string>): string {
  const texts = [...folders]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, folder]) => {
      const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one))
      const text = file === undefined ? readPackage(folder).license : readFileSync(join(folder, file), 'utf8')
      if (text === undefined) throw new Error(`${name} states no licence`)
      return `${name}\n\n${text.trim()}\n`
    })
  return texts.join(`\n${'-'.repeat(80)}\n\n`)
}

/** The packages of the program as CycloneDX, without a time and a serial number: the same build is the same file. */
function bom(folders: ReadonlyMap<string, string>): string {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { integrity?: string }>
  }
  const components = [...folders]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, folder]) => {
      const [algorithm = '', hash = ''] =
        lock.packages[folder.slice(folder.indexOf('node_modules'))]?.integrity?.split('-') ?? []
      const hashes =
        algorithm === 'sha512'
          ? [{ alg: 'SHA-512', content: Buffer.from(hash, 'base64').toString('hex') }]
          : []
      return { ...component('library', readPackage(folder)), hashes }
    })
  return `${JSON.stringify(
    {
      $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
      bomFormat: 'CycloneDX',
      specVersion: '1.6',
      version: 1,
      metadata: { component: component('application', readPackage(ROOT)) },
      components,
    },
    null,
    2,
  )}\n`
}

function component(type: string, { name, version, license }: ReturnType<typeof readPackage>): object {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  return { type, 'bom-ref': purl, name, version, purl, licenses: [{ expression: license }] }
}
