import { availableParallelism } from 'node:os'
import { delimiter, join } from 'node:path'
import { defineConfig } from 'vitest/config'

/** Stand-ins that fail, so that no test can start an agent program by its name. See test/guard/. */
const guardBin = join(import.meta.dirname, 'test/fixtures/guard/bin')

/** Suites that need the real agent program, which `npm test` must never start, or root; they have commands of their own. */
const elsewhere = ['**/node_modules/**', 'dist/**', 'test/claude/**', 'test/lan/**']

/** Rooms whose tests touch neither processes nor files nor the environment: they leave nothing behind in a worker. */
const pure = ['audit', 'core', 'hub', 'runtime'].map((room) => `test/${room}/**/*.test.ts`)

export default defineConfig({
  test: {
    projects: [
      // One worker after the other reads the same modules once, which is more than half of the time of these tests.
      { extends: true, test: { name: 'pure', include: pure, isolate: false } },
      {
        extends: true,
        test: {
          name: 'machine',
          include: ['test/**/*.test.ts', 'relay-node/**/*.test.ts', 'sim/**/*.test.ts'],
          exclude: [...elsewhere, ...pure],
        },
      },
    ],
    env: {
      PATH: `${guardBin}${delimiter}${process.env['PATH'] ?? ''}`,
      // A third of the start of a program from its source is reading it.
      NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/nfltr-tests'),
    },
    setupFiles: ['test/guard/setup.ts', 'test/support/tell-waits.ts'],
    pool: 'forks',
    // Half of the suite waits for processes that it started: two at a time, also where there are two processors only.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    testTimeout: 15_000,
    hookTimeout: 30_000,
    // A poll waits for an event, and on a busy machine that takes more than vitest's one second. Below the test's own
    // time-out, so that a failure tells the last value and not only that time was over.
    expect: { poll: { timeout: 12_000, interval: 20 } },
    coverage: {
      include: ['src/**/*.ts'],
      exclude: ['src/wire/generated/**'],
      reporter: ['text-summary', 'json-summary'],
      reportsDirectory: 'reports/coverage',
    },
  },
})
