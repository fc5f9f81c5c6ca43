import { writeFileSync } from 'node:fs'
import { configJsonSchema } from './config-schema.ts'

// Generates fillrate.schema.json after a change of the configuration: npm run schema.
writeFileSync(
  new URL('../fillrate.schema.json', import.meta.url),
  `${JSON.stringify(configJsonSchema(), null, 2)}\n`,
)
