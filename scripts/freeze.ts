import { writeFileSync } from 'node:fs'
import { HASHES_URL, hashMigrations, readFrozenMigrations } from './frozen-migrations.ts'
import { listSurfaces } from './public-surface/surfaces.ts'

// Takes what this version promises as what later ones have to keep. `npm version` runs it; before, it accepts a change that
// docs/versions.md allows.
writeFileSync(
  new URL('../test/fixtures/public-surface.json', import.meta.url),
  `${JSON.stringify(await listSurfaces(), null, 2)}\n`,
)

// A migration is released with a version; until then it may change. What is released stays as it is.
if (process.env['npm_new_version'] !== undefined) {
  const frozen = { ...hashMigrations(), ...readFrozenMigrations() }
  writeFileSync(HASHES_URL, `${JSON.stringify(frozen, null, 2)}\n`)
}
