import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import process from 'node:process'
import { afterAll } from 'vitest'

/**
 * Runs before every test file: takes away what a test could do harm with. Credentials of the person who runs the tests
 * are removed, and the home is an empty folder, so that no test reads or writes real settings, keys or meshes.
 */
const guardBin = join(import.meta.dirname, '../fixtures/guard/bin')

if ((process.env['PATH'] ?? '').split(delimiter)[0] !== guardBin) {
  throw new Error(`The guard is not first on PATH (${guardBin}); run the tests through vitest.config.ts.`)
}

/** Names of credentials and settings that an agent program or nfltr itself would pick up. */
const guarded = /^(ANTHROPIC_|CLAUDE_|OPENAI_|GEMINI_|GOOGLE_API|NFLTR_(?!TEST_)|AWS_|XDG_)|^(CLAUDECODE|IS_SANDBOX)$/

for (const name of Object.keys(process.env)) {
  if (guarded.test(name)) delete process.env[name]
}

const home = mkdtempSync(join(tmpdir(), 'nfltr-test-home-'))
process.env['HOME'] = home

afterAll(() => {
  rmSync(home, { recursive: true, force: true })
})
