import { defineConfig } from 'vitest/config'

/** The suite that runs the real agent program, pinned by hash, against the scripted model: `npm run test:claude`. */
export default defineConfig({
  test: {
    include: ['test/claude/**/*.test.ts'],
    globalSetup: ['test/claude/binary.ts'],
    setupFiles: ['test/support/tell-waits.ts'],
    pool: 'forks',
    // The program takes half a second to start on a quiet machine and several on a busy one.
    testTimeout: 120_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
})
