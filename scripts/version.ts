import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Files beside package.json and its lock file that state the version. */
export const VERSIONED_FILES = [
  'Dockerfile',
  'docker-compose.yml',
  'docs/operations.md',
  'deploy/helm/fillrate/Chart.yaml',
  'deploy/kubernetes/cronjob.yaml',
  'deploy/kubernetes/fillrate.yaml',
  'deploy/kubernetes/kustomization.yaml',
] as const

/** What the version promises and which migrations it has, as `npm run freeze` writes them before. */
const SURFACE_FILE = 'test/fixtures/public-surface.json'
const MIGRATIONS_FILE = 'test/fixtures/migrations.json'

// `npm version 1.2.3` runs this between its change of package.json and its commit.
const { npm_old_version: before, npm_new_version: now } = process.env
if (import.meta.main && before !== undefined && now !== undefined) {
  const root = join(import.meta.dirname, '..')
  const day = new Date().toISOString().slice(0, 10)
  for (const file of VERSIONED_FILES) replace(file, before, now)
  replace('CHANGELOG.md', `## ${now} (unreleased)`, `## ${now} (${day})`)
  const { status } = spawnSync(
    'git',
    ['add', 'CHANGELOG.md', SURFACE_FILE, MIGRATIONS_FILE, ...VERSIONED_FILES],
    {
      cwd: root,
      stdio: 'inherit',
    },
  )
  process.exitCode = status ?? 1

  function replace(file: string, old: string, text: string): void {
    const path = join(root, file)
    const content = readFileSync(path, 'utf8')
    if (!content.includes(old)) throw new Error(`${file} does not contain "${old}".`)
    writeFileSync(path, content.replaceAll(old, text))
  }
}
