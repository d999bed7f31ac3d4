import { defineConfig } from 'vitest/config'

/** Two machines in network namespaces, which need root: `npm run test:lan`. Skipped, with the reason, where there are none. */
export default defineConfig({
  test: {
    include: ['test/lan/**/*.test.ts'],
    pool: 'forks',
    testTimeout: 120_000,
    hookTimeout: 60_000,
    maxWorkers: 1,
  },
})
