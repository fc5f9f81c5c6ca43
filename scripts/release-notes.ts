import { readFileSync } from 'node:fs'
import { join } from 'node:path'

// Prints what CHANGELOG.md says of a tagged version, once everything that a release needs is stated:
// node scripts/release-notes.ts v1.2.3

const root = join(import.meta.dirname, '..')
const version = (process.argv[2] ?? '').replace(/^v/, '')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string
  repository?: { url: string }
}
const problems: string[] = []
if (manifest.version !== version)
  problems.push(`package.json has version ${manifest.version}: run npm version.`)
// The registry compares it with the repository of the workflow that signs the provenance.
if (manifest.repository === undefined)
  problems.push(
    'package.json names no repository: npm pkg set repository=github:OWNER/NAME, then npm pkg fix.',
  )
const sections = readFileSync(join(root, 'CHANGELOG.md'), 'utf8').split(/^(?=## )/m)
const notes = sections.find((section) => section.startsWith(`## ${version} (`))
if (notes === undefined) problems.push(`CHANGELOG.md has no section for ${version}.`)
else if (notes.startsWith(`## ${version} (unreleased)`))
  problems.push(`CHANGELOG.md says that ${version} is unreleased.`)
if (problems.length > 0) {
  console.error(problems.join('\n'))
  process.exitCode = 1
} else console.log(notes?.split('\n').slice(1).join('\n').trim())
