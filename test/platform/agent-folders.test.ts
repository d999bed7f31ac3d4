import { mkdir, mkdtemp, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { agentFolders } from '../../src/platform/agent-folders.ts'
import type { Workspaces } from '../../src/ports/workspaces.ts'

let home = ''
let folders: Workspaces

beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'nfltr-folders-')))
  await mkdir(join(home, 'code/app'), { recursive: true })
  await mkdir(join(home, 'code-private'))
  await mkdir(join(home, 'books'))
  folders = agentFolders({
    agentsDir: join(home, 'agents'),
    offers: [
      { name: 'code', mode: 'rw', path: join(home, 'code') },
      { name: 'books', mode: 'ro', path: join(home, 'books') },
      { name: 'gone', mode: 'rw', path: join(home, 'gone') },
    ],
  })
})

afterEach(() => rm(home, { recursive: true, force: true }))

const first = { agentId: 'agt_1', attemptId: 'att_1', originAttemptId: 'att_1' }

function reasonOf(dir: string): Promise<unknown> {
  return folders.prepare({ ...first, dir }).then(
    (workspace) => workspace.path,
    (error: { details: { reason: unknown } }) => error.details.reason,
  )
}

describe('folders of agents', () => {
  test('are the agent’s own, empty and closed to other users', async () => {
    const workspace = await folders.prepare(first)

    expect(workspace.path).toBe(join(home, 'agents/agt_1/att_1/workspace'))
    for (const path of Object.values(workspace)) expect((await stat(path)).mode & 0o777).toBe(0o700)
    expect(await folders.freeBytes()).toBeGreaterThan(0)
  })

  test('are found again by a continuation, with what lies in them', async () => {
    const { path, privateDir, tmpDir } = await folders.prepare(first)
    await writeFile(join(path, 'kept'), 'x')

    const next = await folders.prepare({ ...first, attemptId: 'att_2', knownPath: path })

    expect(next.path).toBe(path)
    expect(next.privateDir).toBe(privateDir)
    expect(next.tmpDir).not.toBe(tmpDir)
    expect((await stat(join(next.path, 'kept'))).isFile()).toBe(true)
  })

  test('are refused to a continuation when they are gone or became a link', async () => {
    const { path } = await folders.prepare(first)
    const next = { ...first, attemptId: 'att_2', knownPath: path }

    await rm(path, { recursive: true })
    await expect(folders.prepare(next)).rejects.toMatchObject({ details: { reason: 'workspace' } })
    await symlink(join(home, 'code'), path)
    await expect(folders.prepare(next)).rejects.toMatchObject({ details: { reason: 'workspace' } })
  })

  test('below an offer are taken by their real path', async () => {
    await symlink(join(home, 'code/app'), join(home, 'code/link'))

    expect(await reasonOf('code')).toBe(join(home, 'code'))
    expect(await reasonOf('code/app')).toBe(join(home, 'code/app'))
    expect(await reasonOf('code/link')).toBe(join(home, 'code/app'))
    expect(await reasonOf('code/')).toBe(join(home, 'code'))
  })

  test.each(['other', '', '/etc', 'code/..', 'code/../code-private', 'code/app/../../code', '../code', 'code/\0'])(
    'are refused as not offered: %j',
    async (dir) => {
      expect(await reasonOf(dir)).toBe('dir_not_offered')
    },
  )

  test('are refused when a link leads out of the offer, also to a neighbour with the same beginning', async () => {
    await symlink(join(home, 'code-private'), join(home, 'code/out'))
    await symlink('/', join(home, 'code/root'))

    expect(await reasonOf('code/out')).toBe('dir_not_offered')
    expect(await reasonOf('code/root')).toBe('dir_not_offered')
    expect(await reasonOf('code/root/tmp')).toBe('dir_not_offered')
  })

  test('are refused when an offer is for reading only, since nothing enforces it', async () => {
    expect(await reasonOf('books')).toBe('sandbox_unavailable')
  })

  test('are refused when they are missing or no folder', async () => {
    await writeFile(join(home, 'code/file'), 'x')

    expect(await reasonOf('code/nothing')).toBe('workspace')
    expect(await reasonOf('code/file')).toBe('workspace')
    expect(await reasonOf('gone')).toBe('workspace')
  })

  test('are refused to a continuation once a link points elsewhere', async () => {
    await mkdir(join(home, 'code/a'))
    await symlink(join(home, 'code/a'), join(home, 'code/now'))
    const { path } = await folders.prepare({ ...first, dir: 'code/now' })
    await rm(join(home, 'code/now'))
    await symlink(join(home, 'code/app'), join(home, 'code/now'))

    const next = folders.prepare({ ...first, attemptId: 'att_2', dir: 'code/now', knownPath: path })

    await expect(next).rejects.toMatchObject({ details: { reason: 'workspace' } })
  })

  test('give up the temporary one alone, without following links', async () => {
    const { tmpDir, path } = await folders.prepare(first)
    await symlink(join(home, 'code'), join(tmpDir, 'link'))

    await folders.discardTemporary(first)
    await folders.discardTemporary(first)

    await expect(stat(tmpDir)).rejects.toMatchObject({ code: 'ENOENT' })
    expect((await stat(path)).isDirectory()).toBe(true)
    expect((await stat(join(home, 'code/app'))).isDirectory()).toBe(true)
  })

  test('leave room for a socket in the temporary one, however long the ids are', async () => {
    const long = { agentId: `agt_${'a'.repeat(32)}`, attemptId: `att_${'b'.repeat(32)}`, originAttemptId: 'att_1' }
    await folders.prepare({ ...long, attemptId: 'att_1' })

    const { tmpDir } = await folders.prepare(long)
    const other = await folders.prepare({ ...long, attemptId: `att_${'b'.repeat(31)}c` })

    expect(tmpDir.length - home.length).toBeLessThan(40)
    expect(other.tmpDir).not.toBe(tmpDir)
  })

  test('are never named by anything but an id', async () => {
    await expect(folders.prepare({ ...first, agentId: '../../code' })).rejects.toMatchObject({
      details: { reason: 'workspace' },
    })
  })
})
