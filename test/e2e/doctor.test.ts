import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { installFakeClaude } from '../fixtures/fake-claude/install.ts'
import { type Machine, newMachine } from './machine.ts'
import { meshOfTwo } from './mesh-of-two.ts'

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

describe('doctor on a machine that is out of order', () => {
  const checksOf = async (machine: Machine, args: readonly string[] = []) => {
    const { code, stdout } = await machine.run(['doctor', ...args, '--json'])
    return {
      code,
      bad: (JSON.parse(stdout) as { checks: Check[] }).checks.filter((check) => !check.ok && check.name !== 'path'),
    }
  }

  test('needs no agent program on the laptop of an owner that runs no node, and finds the mesh missing first', async () => {
    await using machine = await newMachine({ env: { PATH: '/nowhere' } })
    expect((await checksOf(machine)).bad[0]).toMatchObject({ name: 'mesh' })
    await machine.json(['mesh', 'create', '--name', 'laptop'])
    expect((await checksOf(machine)).bad).toEqual([])
    expect((await checksOf(machine, ['--node', 'laptop'])).bad).toMatchObject([
      { name: 'reach', message: 'laptop is this machine, and no node runs on it', fix: 'nfltr node join' },
    ])
  }, 60_000)

  test('goes through its checks all the same, and names the file that is', async () => {
    await using machine = await newMachine()
    await machine.json(['mesh', 'create', '--name', 'laptop'])
    const membership = join(machine.home, 'mesh/membership')
    const key = join(machine.home, 'config/keys/machine.key')
    const config = join(machine.home, 'config/config.json')
    const [kept, secret] = [await readFile(membership), await readFile(key)]
    const found = async (name: string, path: string) => {
      const { code, bad } = await checksOf(machine)
      expect(code).toBe(1)
      const first = bad.find((check) => check.name === name)
      expect(`${first?.message} ${first?.fix}`).toContain(path)
      expect(first?.fix).not.toContain('remove it')
    }

    await writeFile(membership, 'rubbish')
    await found('mesh', membership)
    await writeFile(membership, kept)
    await writeFile(key, '')
    await found('mesh', key)
    await writeFile(key, secret)
    await chmod(key, 0o644)
    await found('mesh', key)
    await chmod(key, 0o600)
    for (const text of ['{', '{"listen": ["/ip4/127.0.0.1"]}']) {
      await writeFile(config, text)
      expect((await machine.run(['doctor', '--json'], { env: { NFLTR_LISTEN: '' } })).stdout).toContain(config)
    }
  }, 90_000)
})

describe('doctor --node', () => {
  test('says whether a spawn would find a machine ready, why it would not, and why hellos were refused', async () => {
    await using mesh = await meshOfTwo({ nodeFlags: ['--claude', '/nowhere/claude', '--allow-all-tools'] })
    const checksOf = async (args: readonly string[], machine = mesh.hub): Promise<ReadonlyMap<string, Check>> => {
      const { stdout } = await machine.run(['doctor', '--claude', '/nowhere/claude', ...args, '--json'])
      return new Map((JSON.parse(stdout) as { checks: Check[] }).checks.map((check) => [check.name, check]))
    }

    const unknown = await checksOf(['--node', 'vm9'])
    expect(unknown.get('member')).toMatchObject({ ok: false, message: 'No member is called vm9.' })
    expect(unknown.get('refusals')).toMatchObject({ ok: true, message: 'no hello was refused' })

    const hub = mesh.hub.start(['hub', 'serve'])
    await hub.event('ready')
    const ofNode = async (field: string) => (await mesh.node.json(['node', 'status']))[field] as readonly Check[]
    await expect.poll(async () => (await ofNode('hubs')).length, { timeout: 30_000 }).toBe(1)
    const known = await checksOf(['--node', 'vm1'])
    expect(known.get('member')).toMatchObject({ ok: true })
    expect((await checksOf(['--node', 'vm1'], mesh.node)).get('reach')).toMatchObject({ ok: true })
    expect(known.get('reach')).toMatchObject({ ok: true, message: 'vm1 answered' })
    expect(known.get('node')).toMatchObject({ ok: false, message: expect.stringContaining('vm1 takes no agents') })

    await mesh.hub.json(['mesh', 'revoke', 'vm1'])
    expect((await checksOf([], mesh.node)).get('refusals')).toMatchObject({
      ok: false,
      message: expect.stringContaining('revoked'),
      fix: expect.stringContaining('out of the mesh'),
    })
  }, 120_000)
})
