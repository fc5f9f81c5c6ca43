import type { Output } from '../../cli/terminal.ts'
import { type Terms, renderTerms } from '../../cli/views/layout.ts'

/** The commands as typed in this installation. */
export interface DemoCommands {
  readonly again: string
  readonly keep: string
  /** Commands for the database of a demo that keeps running, in its own folder. */
  readonly tryOut: Terms
  readonly own: Terms
}

/**
 * In a checkout, commands run through npm.
 * @param env npm sets the name of the running script in it
 */
export function demoCommands(env: NodeJS.ProcessEnv): DemoCommands {
  const inCheckout = env['npm_lifecycle_event'] === 'start' || env['npm_lifecycle_event'] === 'fillrate'
  const command = (words: string): string =>
    inCheckout ? `npm run fillrate -- ${words}` : `fillrate ${words}`
  // npm changes to the folder of the package.
  const there = (words: string): string =>
    inCheckout ? `node ../../src/main.ts ${words}` : `fillrate ${words}`
  const settings: Terms[number] = inCheckout
    ? ['cp .env.example .env', 'set database, service and key']
    : ['fillrate help', 'list the settings of the environment: database, service, key']
  return {
    again: inCheckout ? 'npm start' : 'fillrate demo',
    keep: inCheckout ? 'npm start -- --keep' : 'fillrate demo --keep',
    tryOut: [
      [there('init'), 'propose a configuration from its tables'],
      [there('check'), 'verify it'],
      [there('plan'), 'estimate what a run costs'],
      [there('status'), 'rows by state, fill rates, jobs and the rate limit'],
      [there('services'), 'what each service found, filled and cost'],
    ],
    own: [
      settings,
      [command('init'), 'propose a configuration from your tables'],
      [command('check'), 'verify configuration, database and API access'],
      [command('migrate'), "create Fillrate's schema"],
      [command('plan'), 'estimate what a run costs'],
      [command('run --dry-run --budget 100'), 'look up 100 rows, and show what would be written'],
    ],
  }
}

/**
 * The next commands: the demo again, then with the user's own database.
 * @param folders created by the demo
 */
export function demoNextStepLines(
  { again, keep, own }: DemoCommands,
  folders: readonly string[],
  output: Output,
): string[] {
  return [
    ...renderTerms(
      output,
      [
        [keep, 'the same, and then open the dashboard: every run, row and call'],
        [again, 'run again: no lookups are repeated'],
        [`rm -rf ${folders.join(' ')}`, 'remove everything'],
      ],
      STEP_LAYOUT,
    ),
    '',
    '  With your own database:',
    '',
    ...renderTerms(output, own, STEP_LAYOUT),
  ]
}

/** A longer command has its description on the next line. */
export const STEP_LAYOUT = { style: 'type', maxColumns: 50 } as const
