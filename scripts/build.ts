import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bundleProgram } from './bundle.ts'

// Builds the published program into dist: npm run build. TypeScript writes the declarations, rolldown the code.

const ROOT = join(import.meta.dirname, '..')
const DIST = join(ROOT, 'dist')

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
