import { spawnSync } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { describe, expect, test } from 'vitest'
import type { RosterRecord } from '../../../src/ports/home.ts'
import { loadConfigText, saveConfigText } from '../../../src/store/home/config-file.ts'
import { openHome } from '../../../src/store/home/home.ts'
import { homePaths } from '../../../src/store/home/paths.ts'
import { temporaryHome } from './temporary-home.ts'

const member: RosterRecord = {
  peerId: '12D3KooWmember',
  serial: 4,
  membership: new Uint8Array([1, 2]),
  addresses: [{ peerId: '12D3KooWhub', seq: 3, envelope: new Uint8Array([5]) }],
  lastSeenAtMs: 1_000,
}

describe('the folders of a home', () => {
  test('lie below the chosen folder, flag before variable', () => {
    const byFlag = homePaths({ home: '/a', env: { NFLTR_HOME: '/b' } })
    const byVariable = homePaths({ env: { NFLTR_HOME: '/b', XDG_CONFIG_HOME: '/c' } })

    expect(byFlag).toMatchObject({ keys: '/a/config/keys', mesh: '/a/mesh', issuer: '/a/issuer', run: '/a/run' })
    expect(byVariable.configFile).toBe('/b/config/config.json')
    expect(byFlag.hub('h-1')).toBe('/a/hubs/h-1')
  })

  test('are the XDG folders where none was chosen; relative ones are ignored', () => {
    const plain = homePaths({ env: { HOME: '/u' } })
    const xdg = homePaths({
      env: { HOME: '/u', XDG_CONFIG_HOME: '/c', XDG_STATE_HOME: 'relative', XDG_RUNTIME_DIR: '/r' },
    })

    expect(plain).toMatchObject({
      configFile: '/u/.config/nfltr/config.json',
      mesh: '/u/.local/state/nfltr/mesh',
      run: '/u/.local/state/nfltr/run',
    })
    expect(xdg).toMatchObject({ keys: '/c/nfltr/keys', node: '/u/.local/state/nfltr/node', run: '/r/nfltr' })
  })

  test.each(['', '.', '..', '../x', 'a/b', 'a\0b', 'x'.repeat(101)])('refuse a hub id such as %j', (hubId) => {
    expect(() => homePaths({ home: '/a' }).hub(hubId)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
  })

  test('are made only when something is written', async () => {
    const { root, mesh, keys } = temporaryHome()

    await mesh.roster()
    await mesh.loadMembership()
    await keys.load('machine')

    expect(readdirSync(root)).toEqual([])
  })
})

describe('what a home knows of its mesh', () => {
  test('is read as it was written, by another process too', async () => {
    const { mesh, root } = temporaryHome()
    const membership = {
      meshId: 'mesh',
      membership: new Uint8Array([1]),
      issuerMembership: new Uint8Array([2]),
      issuerCertificates: [new Uint8Array([3])],
      relays: [],
    }

    await mesh.saveMembership(membership)
    await mesh.saveMember(member)

    const other = openHome({ home: root, env: {} }).mesh
    expect(await other.loadMembership()).toEqual(membership)
    expect(await other.roster()).toEqual([member])
    expect(await other.member(member.peerId)).toEqual(member)
    await other.removeMember(member.peerId)
    expect(await mesh.roster()).toEqual([])
  })

  test('a damaged member is left out and learnt again; a damaged membership is an error', async () => {
    const { mesh, paths } = temporaryHome()
    await mesh.saveMember(member)
    writeFileSync(join(paths.mesh, 'roster', 'torn'), '{', { mode: 0o600 })
    writeFileSync(join(paths.mesh, 'membership'), '{}', { mode: 0o600 })

    expect(await mesh.roster()).toEqual([member])
    await expect(mesh.loadMembership()).rejects.toMatchObject({ code: 'store_damaged' })
  })

  test('revocation versions and the seen time never go down', async () => {
    const { mesh } = temporaryHome()
    const list = (version: number) => ({ issuerId: 'i', version, envelope: new Uint8Array([version]) })

    expect(await mesh.saveRevocations(list(2))).toBe(true)
    expect(await mesh.saveRevocations(list(1))).toBe(false)
    expect(await mesh.saveRevocations(list(2))).toBe(false)
    expect(await mesh.revocations()).toEqual([list(2)])
    expect(await mesh.seenTimeMs()).toBe(0)
    await Promise.all([mesh.raiseSeenTime(500), mesh.raiseSeenTime(900), mesh.raiseSeenTime(700)])
    expect(await mesh.seenTimeMs()).toBe(900)
  })

  test('a change by another process is told', async () => {
    const { mesh, root } = temporaryHome()
    const seen = new EventEmitter()
    const stop = mesh.watch(() => seen.emit('change'))
    // The first call says that the watch stands.
    await once(seen, 'change')

    const script = `import { openHome } from ${JSON.stringify(join(import.meta.dirname, '../../../src/store/home/home.ts'))}
      await openHome({ home: ${JSON.stringify(root)}, env: {} }).mesh.saveMember({ peerId: 'p', serial: 1, membership: new Uint8Array(), addresses: [] })`
    const told = once(seen, 'change')
    expect(spawnSync(process.execPath, ['--input-type=module', '-e', script]).status).toBe(0)
    await told

    stop()
    expect((await mesh.roster()).map(({ peerId }) => peerId)).toEqual(['p'])
  })
})

describe('credentials, settings and running processes', () => {
  test('the credential that was added last is kept, for its owner alone', async () => {
    const { credentials, paths } = temporaryHome()

    expect(await credentials.load()).toBeUndefined()
    await credentials.save('api_key', 'first')
    await credentials.save('oauth_token', 'second')

    expect(await credentials.load()).toEqual({ kind: 'oauth_token', secret: 'second' })
    for (const name of readdirSync(paths.credentials)) {
      expect(statSync(join(paths.credentials, name)).mode & 0o777).toBe(0o600)
      expect(readFileSync(join(paths.credentials, name), 'utf8')).not.toContain('first')
    }
  })

  test('the settings file is text that is replaced as a whole', async () => {
    const { paths } = temporaryHome()

    expect(await loadConfigText(paths)).toBeUndefined()
    await saveConfigText(paths, '{"schema":1}\n')

    expect(await loadConfigText(paths)).toBe('{"schema":1}\n')
  })

  test('running processes are listed while they live', async () => {
    const { running, paths } = temporaryHome()
    const facts = { kind: 'node', peerId: 'p1', listen: ['/ip4/127.0.0.1/tcp/4701'] }

    const registration = await running.register(facts)
    expect(await running.list()).toEqual([expect.objectContaining({ ...facts, pid: process.pid })])
    const dead = { ...facts, peerId: 'p2', pid: process.pid, start: '1', bootId: 'another', sinceMs: 1 }
    const own = JSON.parse(readFileSync(join(paths.run, 'processes/p1'), 'utf8')) as { host: string }
    writeFileSync(join(paths.run, 'processes/p2'), JSON.stringify({ ...dead, host: own.host }), { mode: 0o600 })
    expect((await running.list()).map(({ peerId }) => peerId)).toEqual(['p1'])
    expect(existsSync(join(paths.run, 'processes/p2'))).toBe(false)
    await registration.release()

    expect(await running.list()).toEqual([])
  })
})
