import { mkdir, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { installFakeClaude } from '../fixtures/fake-claude/install.ts'
import { newMachine } from './machine.ts'

interface Check {
  readonly name: string
  readonly ok: boolean
  readonly message: string
  readonly fix?: string
}

describe('doctor', () => {
  test('finds nothing wrong with a machine that can run agents, and says what is wrong with one that cannot', async () => {
    await using machine = await newMachine()
    const folder = join(machine.home, '..', 'bin')
    await mkdir(folder)
    await writeFile(join(folder, 'nfltr'), '#!/bin/sh\n', { mode: 0o755 })
    const claude = await installFakeClaude(join(machine.home, '..', 'claude'), { default: [{ say: 'unused' }] })
    await machine.json(['mesh', 'create', '--name', 'laptop'])
    const env = { PATH: `${folder}${delimiter}${machine.env['PATH']}` }

    const well = await machine.json(['doctor', '--claude', claude], {
      env: { ...env, ANTHROPIC_API_KEY: 'sk-ant-test' },
    })
    const ill = await machine.run(['doctor', '--claude', '/nowhere/claude', '--json'], { env })

    expect(well['ok'], JSON.stringify(well)).toBe(true)
    expect(ill.code).toBe(1)
    const checks = (JSON.parse(ill.stdout) as { checks: Check[] }).checks
    expect(checks.filter((check) => !check.ok).map((check) => check.name)).toEqual([
      'claude',
      'credential',
      'handshake',
    ])
    for (const check of checks) expect(check.ok || check.fix !== undefined).toBe(true)
  }, 60_000)
})
