import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Files beside package.json and its lock file that state the version. */
export const VERSIONED_FILES = [
  'Dockerfile',
  'docker-compose.yml',
  'docs/operations.md',
  'deploy/helm/fillrate/Chart.yaml',
] as const

// `npm version 1.2.3` runs this between its change of package.json and its commit, and then what records what it promises.
const { npm_old_version: before, npm_new_version: now } = process.env
if (import.meta.main && before !== undefined && now !== undefined) {
  const root = join(import.meta.dirname, '..')
  const day = new Date().toISOString().slice(0, 10)
  // First: it is what may be missing, and nothing else is changed then.
  replace('CHANGELOG.md', `## ${now} (unreleased)`, `## ${now} (${day})`)
  for (const file of VERSIONED_FILES) replace(file, before, now)

  function replace(file: string, old: string, text: string): void {
    const path = join(root, file)
    const content = readFileSync(path, 'utf8')
    if (!content.includes(old)) throw new Error(`${file} does not contain "${old}".`)
    writeFileSync(path, content.replaceAll(old, text))
  }
}
