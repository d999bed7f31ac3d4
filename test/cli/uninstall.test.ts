import { spawn } from 'node:child_process'
import { lstatSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { uninstall } from '../../src/cli/compose/uninstalling.ts'
import type { Context } from '../../src/cli/compose.ts'
import { terminalIo } from '../../src/cli/io.ts'
import { createMesh } from '../../src/identity/mesh-setup.ts'
import { shortRunDir } from '../../src/platform/short-run-dir.ts'
import type { Home } from '../../src/ports/home.ts'
import { openHome } from '../../src/store/home/home.ts'

let folder: string
let user: string
let env: Record<string, string>
let home: Home

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nfltr uninstall ünïcode-'))
  user = join(folder, 'a person’s home')
  env = { HOME: user, XDG_RUNTIME_DIR: join(folder, 'run time') }
  home = openHome({ env })
  await install()
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const context = (): Context => ({ io: terminalIo({ isJson: true }), env, version: '0.1.0' })

async function put(path: string, text = 'text'): Promise<void> {
  await mkdir(join(user, path, '..'), { recursive: true })
  await writeFile(join(user, path), text)
}

/** What the installer makes, an earlier version and one that was being made. */
async function install(): Promise<void> {
  const app = '.local/share/nfltr/app'
  await put(`${app}/0.1.0-2/package.json`, '{\n  "name": "nfltr"\n}')
  await put(`${app}/0.1.0-2/bin/nfltr.js`)
  await put(`${app}/0.1.0-1/package.json`, '{\n  "name": "nfltr"\n}')
  await put(`${app}/new.AbC123/package.json`)
  await symlink('0.1.0-2', join(user, app, 'current'))
  await put('.local/bin/nfltr', '#!/bin/sh\n# Written by the installer of nfltr.\n')
}

/** Everything of other people, in and beside every folder that nfltr uses. */
const foreignFiles = [
  '.local/share/nfltr/app/notes.txt',
  '.local/share/nfltr/other/package.json',
  '.local/share/nfltr-else/file',
  '.local/bin/other',
  '.config/nfltr/notes of mine.txt',
  '.config/nfltr-else/config.json',
  '.local/state/nfltr/notes é.txt',
  '.local/state/other/node/db',
  'node/db',
]

async function live(): Promise<void> {
  await createMesh(home, { name: 'laptop', nowMs: Date.now() })
  await home.credentials.save('api_key', 'sk-ant-test')
  await put('.config/nfltr/config.json', '{}')
  await put('.local/state/nfltr/node/agents/agt_1/att_1/workspace/result.txt')
  await put('.local/state/nfltr/hubs/h-1/db/000001.log')
  await home.running.register({ kind: 'node', peerId: 'peer', listen: [] }).then((held) => held.release())
}

async function manifest(): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(user, join(entry.parentPath, entry.name)))
    .sort()
}

describe('uninstall', () => {
  test('removes what the installer brought and nothing else', async () => {
    for (const path of foreignFiles) await put(path)
    await live()
    const kept = (await manifest()).filter(
      (path) => foreignFiles.includes(path) || /^(?:\.config|\.local\/state|\.\.)\//.test(path),
    )

    const done = await uninstall(context(), {})

    expect(await manifest()).toEqual(kept)
    expect(done.removed.map((path) => relative(user, path)).sort()).toEqual([
      '.local/bin/nfltr',
      '.local/share/nfltr/app/0.1.0-1',
      '.local/share/nfltr/app/0.1.0-2',
      '.local/share/nfltr/app/current',
      '.local/share/nfltr/app/new.AbC123',
    ])
    expect(done.kept).toContain(join(user, '.config/nfltr/keys'))
    expect(done.kept).toContain(join(user, '.local/share/nfltr/app/notes.txt'))
    expect((await uninstall(context(), {})).removed).toEqual([])
  })

  test('purged, leaves the files of others and nothing of its own, in folders with spaces and letters of all kinds', async () => {
    for (const path of foreignFiles) await put(path)
    await live()
    const sockets = await shortRunDir(join(folder, 'run time/nfltr'), [folder, tmpdir()])
    const elsewhere = join(folder, 'big disk')
    await mkdir(elsewhere)
    await writeFile(join(elsewhere, 'of others'), '')
    await rm(join(user, '.local/state/nfltr/hubs'), { recursive: true })
    await symlink(elsewhere, join(user, '.local/state/nfltr/hubs'))

    const done = await uninstall(context(), { purge: true, force: true })

    expect(await manifest()).toEqual(['../big disk/of others', ...foreignFiles].sort())
    expect(lstatSync(join(folder, 'run time')).isDirectory()).toBe(true)
    expect(done.kept).toContain(join(user, '.config/nfltr/notes of mine.txt'))
    expect(() => lstatSync(sockets)).toThrow()
    // Nobody else's file was in there.
    await rm(join(user, '.local/share/nfltr/app/notes.txt'))
    expect((await uninstall(context(), { purge: true })).removed).toEqual([join(user, '.local/share/nfltr/app')])
  })

  test('purged, takes a home that was given for it, and that alone', async () => {
    const given = openHome({ home: join(folder, 'gïven home'), env })
    await createMesh(given, { name: 'laptop', nowMs: Date.now() })
    await live()

    await uninstall(context(), { home: join(folder, 'gïven home'), purge: true, force: true })

    expect(() => lstatSync(join(folder, 'gïven home'))).toThrow()
    expect(await home.mesh.loadMembership()).toBeDefined()
  })

  test('does not purge a member, nor the key of a mesh', async () => {
    await live()
    const before = await manifest()

    await expect(uninstall(context(), { purge: true })).rejects.toMatchObject({
      code: 'in_use',
      hint: expect.stringContaining('nfltr mesh key export'),
    })
    expect(await manifest()).toEqual(before)
  })

  test('removes nothing while something of it runs, and names it', async () => {
    await live()
    const script = join(user, '.local/share/nfltr/app/0.1.0-2/bin/nfltr.js')
    await writeFile(script, 'process.stdout.write("up"); setInterval(() => {}, 1000)')
    const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'ignore'] })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    try {
      await new Promise((resolve) => child.stdout.once('data', resolve))
      const held = await home.running.register({ kind: 'hub', peerId: 'peer', listen: [] })
      const before = await manifest()

      await expect(uninstall(context(), {})).rejects.toMatchObject({ code: 'in_use', details: { pids: [child.pid] } })
      await expect(uninstall(context(), { purge: true, force: true })).rejects.toMatchObject({
        details: { pids: [child.pid, process.pid] },
      })
      expect(await manifest()).toEqual(before)
      await held.release()
    } finally {
      child.kill()
      await ended
    }
  })
})
