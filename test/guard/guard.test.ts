import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { describe, expect, test } from 'vitest'

const guardBin = join(import.meta.dirname, '../fixtures/guard/bin')
const names = readdirSync(guardBin)

describe('guard', () => {
  test('stands in for the agent programs a test could start', () => {
    expect(names).toEqual(expect.arrayContaining(['aider', 'claude', 'codex', 'cursor-agent', 'gemini', 'opencode']))
  })

  test.each(names)('%s fails with 97 and says why', (name) => {
    const run = spawnSync(name, ['--version'], { encoding: 'utf8' })

    expect(run.status).toBe(97)
    expect(run.stderr).toContain(`a test started '${name}' by name`)
  })

  test('a shell below a test meets the guard too', () => {
    const run = spawnSync('sh', ['-c', 'claude -p hello'], { encoding: 'utf8' })

    expect(run.status).toBe(97)
  })

  test('no credential of the person who runs the tests is in the environment', () => {
    const left = Object.keys(process.env).filter((name) => /^(ANTHROPIC|CLAUDE|OPENAI)_/.test(name))

    expect(left).toEqual([])
  })

  test('the home is an empty folder', () => {
    expect(readdirSync(process.env['HOME'] ?? '/')).toEqual([])
  })
})
