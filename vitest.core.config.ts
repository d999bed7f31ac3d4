import { defineConfig } from 'vitest/config'

/** The tests that hold the core alone: what Stryker runs for each change that it makes. */
export default defineConfig({
  test: { include: ['test/core/**/*.test.ts'], isolate: false, pool: 'threads', maxWorkers: 1, testTimeout: 60_000 },
})
