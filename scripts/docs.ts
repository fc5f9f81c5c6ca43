import { writeFileSync } from 'node:fs'
import { configJsonSchema } from './config-schema.ts'
import { commandsPage } from './docs/commands.ts'
import { configurationPage } from './docs/configuration.ts'
import { jsonPage } from './docs/json.ts'
import { logsPage } from './docs/logs.ts'
import { notificationsPage } from './docs/notifications.ts'

// Generates pages of docs/ and fillrate.schema.json from the program: npm run docs. Tests compare them.
for (const [name, text] of [
  ['cli.md', commandsPage()],
  ['configuration.md', configurationPage()],
  ['json.md', jsonPage()],
  ['logs.md', logsPage()],
  ['notifications.md', notificationsPage()],
] as const)
  writeFileSync(new URL(`../docs/${name}`, import.meta.url), text)
writeFileSync(
  new URL('../fillrate.schema.json', import.meta.url),
  `${JSON.stringify(configJsonSchema(), null, 2)}\n`,
)
