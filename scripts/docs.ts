import { writeFileSync } from 'node:fs'
import { commandsPage } from './docs/commands.ts'
import { configurationPage } from './docs/configuration.ts'

// Writes the pages of docs/ that are made out of the program itself: npm run docs. A test holds them to it.
for (const [name, text] of [
  ['cli.md', commandsPage()],
  ['configuration.md', configurationPage()],
] as const)
  writeFileSync(new URL(`../docs/${name}`, import.meta.url), text)
