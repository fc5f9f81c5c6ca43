import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

// Tests start the program a hundred times: cache the compiled code for these processes and the workers.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, 'node_modules/.cache/compiled')

/** Only stops a test that hangs. The longest takes 20 s; at a load of 20 on two cores it took more than two minutes. */
const UNIT_TIMEOUT_MS = 600_000

const MOCKED = 'test/unit/**/*.mocked.test.ts'

/** The examples import the package by its name. */
const EXAMPLES = { alias: { fillrate: join(import.meta.dirname, 'src/index.ts') } }

/** What `src` gives as the type of a result is held against the rows that Postgres sends. */
const CHECKED = {
  alias: [
    { find: 'fillrate', replacement: EXAMPLES.alias.fillrate },
    { find: /^kysely$/, replacement: join(import.meta.dirname, 'test/support/checked-kysely.ts') },
  ],
}

/** Crashes and kills, daemons, the dashboard in a browser, the demo, examples and guides, and what takes a life of a row, a source or a budget. */
const SLOW = [
  'test/integration/actions/plan-services.test.ts',
  'test/integration/cli/{cancel,concurrent-runs,deliveries,dry-run,interrupt,kill,process,row-security,several-services,source}.test.ts',
  'test/integration/{daemon,demo,examples,faults}/*.test.ts',
  'test/integration/dashboard/{actions,actions-browser,auth,dashboard,figures}.test.ts',
  'test/integration/docs/guide-*.test.ts',
  'test/integration/history/{earlier-values-of-services,remap,remap-services,row-identity,undo-order}.test.ts',
  'test/integration/pipeline/{cascade,locked-and-slow-tables,rejected-cells}.test.ts',
  'test/integration/runs/{any-input-jobs,bounded-reading,broken-source,budget-bound,credits,deleted-rows,dry-run,emptied-rows,endpoint-limits,freshness,job-outcomes,jobs,money-budget,other-services,outage,own-writes,result-pages,scopes,service-ages,services-apart,services-in-turn,several-services,stated-credits,unstated-limit}.test.ts',
  'test/integration/sources/{rejected-cells,restore,sample-keys}.test.ts',
  'test/integration/store/released.test.ts',
]

/** Real outages of minutes, whose begin and end are measured. */
const ON_CALL = 'test/integration/faults/conditions-*.test.ts'

const SETUP = { setupFiles: ['test/support/seed-setup.ts'] }

const INTEGRATION = {
  ...SETUP,
  globalSetup: [
    'test/support/result-types-setup.ts',
    'test/support/postgres-setup.ts',
    'test/support/program-setup.ts',
  ],
  // Limits for a hanging test only: a machine may be ten times slower than the one the test was written on, and no test is
  // a measurement. The longest takes 80 s beside five others. Tests set no shorter limits.
  testTimeout: 900_000,
  hookTimeout: 900_000,
  expect: { poll: { timeout: 120_000 } },
}

export default defineConfig({
  test: {
    // Tests mostly wait: for Postgres, for a process, for a lease. By default two cores would run one file at a time.
    maxWorkers: 6,
    // Modules are loaded once per worker instead of once per file, which saves a third of the CPU time. No test may rely
    // on a module's state: the product keeps none outside of Postgres.
    isolate: false,
    projects: [
      {
        resolve: EXAMPLES,
        test: {
          ...SETUP,
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          exclude: [MOCKED],
          testTimeout: UNIT_TIMEOUT_MS,
          expect: { poll: { timeout: 60_000 } },
        },
      },
      {
        test: {
          ...SETUP,
          // Tests that mock a module, or the clock of the whole file, need modules of their own.
          name: 'unit-mocked',
          include: [MOCKED],
          isolate: true,
          testTimeout: UNIT_TIMEOUT_MS,
        },
      },
      {
        resolve: CHECKED,
        test: {
          ...INTEGRATION,
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: [...SLOW, ON_CALL],
        },
      },
      {
        // `npm run test:slow`: two thirds of all the time. `npm test` is to end within three minutes on two cores.
        resolve: CHECKED,
        test: { ...INTEGRATION, name: 'slow', include: SLOW, exclude: [ON_CALL] },
      },
      {
        // The last part of it, one file after the other: what an operator sees within seconds.
        resolve: CHECKED,
        test: { ...INTEGRATION, name: 'on-call', include: [ON_CALL] },
      },
    ],
  },
})
