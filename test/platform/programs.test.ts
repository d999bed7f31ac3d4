import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import { systemPrograms } from '../../src/platform/programs.ts'

const programs = systemPrograms()
const signal = new AbortController().signal
let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'np-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

async function script(name: string, text: string, mode = 0o755): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, `#!/bin/sh\n${text}\n`, { mode })
  return path
}

describe('programs', () => {
  test('are found by path or name, where they can be run', async () => {
    const path = await script('tool', 'exit 0')
    await script('data', 'exit 0', 0o644)
    await mkdir(join(folder, 'dir'))
    const search = `relative:/none:${folder}`

    expect(await programs.find('tool', search)).toBe(path)
    expect(await programs.find(path, '')).toBe(path)
    expect(await programs.find('data', search)).toBeUndefined()
    expect(await programs.find('dir', search)).toBeUndefined()
    expect(await programs.find('nothing', search)).toBeUndefined()
  })

  test('run in exactly the environment given, and are killed at their bound', async () => {
    const path = await script('env', '/usr/bin/env; exit 3')
    const slow = await script('slow', 'exec /bin/sleep 1000')

    const end = await programs.run(path, { args: [], env: { ONLY: '1' }, timeoutMs: 60_000, signal })
    const killed = await programs.run(slow, { args: [], env: {}, timeoutMs: 50, signal })

    expect(end.code).toBe(3)
    expect(end.stdout.split('\n').filter((line) => !/^(PWD|_|SHLVL|OLDPWD)=|^$/.test(line))).toEqual(['ONLY=1'])
    expect(killed.code).toBeUndefined()
    await expect(programs.run(join(folder, 'none'), { args: [], env: {}, timeoutMs: 50, signal })).rejects.toThrow(
      'ENOENT',
    )
  })
})

describe('text of a workspace', () => {
  const read = (name: string): Promise<string | undefined> => programs.readText(join(folder, name), { maxBytes: 10 })

  test('is read from plain files only', async () => {
    await writeFile(join(folder, 'plain'), 'wörd')
    await symlink(join(folder, 'plain'), join(folder, 'link'))
    await mkdir(join(folder, 'dir'))
    execFileSync('mkfifo', [join(folder, 'pipe')])

    expect(await read('plain')).toBe('wörd')
    for (const name of ['link', 'dir', 'pipe', 'none', 'plain/below']) expect(await read(name)).toBeUndefined()
  })

  test('is refused when it is too long or no text', async () => {
    await writeFile(join(folder, 'long'), 'x'.repeat(11))
    await writeFile(join(folder, 'bytes'), Buffer.from([0xc3, 0x28]))

    for (const name of ['long', 'bytes']) await expect(read(name)).rejects.toThrow(NfltrError)
  })

  test('is written for its owner alone', async () => {
    const path = join(folder, 'new', 'file')

    await programs.writeText(path, 'one', { isProgram: false })
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    await programs.writeText(path, 'two', { isProgram: true })
    expect((await stat(path)).mode & 0o777).toBe(0o700)
    expect((await stat(join(folder, 'new'))).mode & 0o777).toBe(0o700)
    await programs.removeFile(path)
    await programs.removeFile(path)
    await chmod(join(folder, 'new'), 0o755)
    await expect(programs.makeFolder(join(folder, 'new'))).rejects.toThrow('open to other users')
  })
})
