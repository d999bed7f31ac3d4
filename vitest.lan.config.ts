import { defineConfig } from 'vitest/config'

/** Machines in network namespaces, which need root: `npm run test:lan`. Skipped, with the reason, where there are none. */
export default defineConfig({
  test: {
    include: ['test/lan/**/*.test.ts'],
    setupFiles: ['test/support/tell-waits.ts'],
    pool: 'forks',
    // A guide is some twenty starts of the program; each takes half a second on a quiet machine and several on a busy one.
    testTimeout: 240_000,
    hookTimeout: 60_000,
    maxWorkers: 1,
  },
})
