import { writeFileSync } from 'node:fs'
import { listSurfaces } from './public-surface/surfaces.ts'

// Writes down what this version offers. Before 1.0 the list only becomes shorter, but for what its commit gives a reason for.
writeFileSync(
  new URL('../test/fixtures/public-surface.json', import.meta.url),
  `${JSON.stringify(await listSurfaces(), null, 2)}\n`,
)
