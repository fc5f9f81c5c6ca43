import { readFileSync, writeFileSync } from 'node:fs'
import { configJsonSchema } from './config-schema.ts'
import { commandsPage } from './docs/commands.ts'
import { configurationPage } from './docs/configuration.ts'
import { jsonPage, reportsSchema } from './docs/json.ts'
import { logsPage } from './docs/logs.ts'
import { notificationsPage } from './docs/notifications.ts'
import { listSurfaces } from './public-surface/surfaces.ts'

// Generates pages of docs/ and JSON Schemas from the program, and adds to the list of promises what is new: npm run docs. Tests
// compare them. What was released stays in the list: only a new major version takes a line out, by hand.
const PROMISES = new URL('../test/fixtures/public-surface.json', import.meta.url)
const promised = JSON.parse(readFileSync(PROMISES, 'utf8')) as Record<string, readonly string[]>
const promises = Object.entries(await listSurfaces()).map(([name, lines]) => [
  name,
  [...new Set([...(promised[name] ?? []), ...lines])].toSorted(),
])
const toJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`
for (const [path, text] of [
  ['docs/cli.md', commandsPage()],
  ['docs/configuration.md', configurationPage()],
  ['docs/json.md', jsonPage()],
  ['docs/logs.md', logsPage()],
  ['docs/notifications.md', notificationsPage()],
  ['fillrate.schema.json', toJson(configJsonSchema())],
  ['fillrate-json.schema.json', toJson(reportsSchema())],
  ['test/fixtures/public-surface.json', toJson(Object.fromEntries(promises))],
] as const)
  writeFileSync(new URL(`../${path}`, import.meta.url), text)
