import { writeFileSync } from 'node:fs'
import { configJsonSchema } from './config-schema.ts'
import { commandsPage } from './docs/commands.ts'
import { configurationPage } from './docs/configuration.ts'
import { jsonPage, reportsSchema } from './docs/json.ts'
import { logsPage } from './docs/logs.ts'
import { notificationsPage } from './docs/notifications.ts'
import { listSurfaces } from './public-surface/surfaces.ts'

// Generates pages of docs/ and JSON Schemas from the program, and writes down what this version promises: npm run docs. Tests
// compare them. Before 1.0 the list of promises only becomes shorter, but for what its commit gives a reason for.
const toJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`
for (const [path, text] of [
  ['docs/cli.md', commandsPage()],
  ['docs/configuration.md', configurationPage()],
  ['docs/json.md', jsonPage()],
  ['docs/logs.md', logsPage()],
  ['docs/notifications.md', notificationsPage()],
  ['fillrate.schema.json', toJson(configJsonSchema())],
  ['fillrate-json.schema.json', toJson(reportsSchema())],
  ['test/fixtures/public-surface.json', toJson(await listSurfaces())],
] as const)
  writeFileSync(new URL(`../${path}`, import.meta.url), text)
