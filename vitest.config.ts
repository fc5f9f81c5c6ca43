import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

// Tests start the program a hundred times: what it is compiled to is kept, for these processes and the workers.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, 'node_modules/.cache/compiled')

/** Only stops a test that hangs. The longest takes 20 s; at a load of 20 on two cores it took more than two minutes. */
const UNIT_TIMEOUT_MS = 600_000

const MOCKED = 'test/unit/**/*.mocked.test.ts'

export default defineConfig({
  test: {
    // Most of the time a test waits: for Postgres, for a process, for a lease. By default two cores would take one file
    // at a time.
    maxWorkers: 4,
    // The modules are loaded once a worker and not once a file, which takes a third of the CPU time away. No test may
    // rely on a module's state: the product keeps none outside of Postgres.
    isolate: false,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          exclude: [MOCKED],
          testTimeout: UNIT_TIMEOUT_MS,
          expect: { poll: { timeout: 60_000 } },
        },
      },
      {
        test: {
          // What takes the place of a module, or of the clock of the whole file, needs modules of its own.
          name: 'unit-mocked',
          include: [MOCKED],
          isolate: true,
          testTimeout: UNIT_TIMEOUT_MS,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          globalSetup: ['test/support/postgres-setup.ts'],
          // Bounds for a test that hangs, and for nothing else: a machine may be ten times slower than the one it was
          // written on, and no test is a measurement. Tests set no shorter ones of their own.
          testTimeout: 300_000,
          hookTimeout: 300_000,
          expect: { poll: { timeout: 120_000 } },
        },
      },
    ],
  },
})
