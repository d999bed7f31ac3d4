import type { TestProject } from 'vitest/node'
import { ensureClaudeBinary } from '../../scripts/claude-binary.ts'

declare module 'vitest' {
  interface ProvidedContext {
    claudeBinary: string
  }
}

/** Fetches and checks the pinned binary once, before any test of the suite. */
export async function setup(project: TestProject): Promise<void> {
  project.provide('claudeBinary', await ensureClaudeBinary())
}
