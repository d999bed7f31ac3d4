import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openHome } from '../../../src/store/home/home.ts'
import { temporaryHome } from './temporary-home.ts'

const racer = join(import.meta.dirname, 'racers/lock.ts')
const key = new Uint8Array([1, 2, 3])

/** A racer that no failed test leaves behind. */
function killedAtTheEnd<T extends ChildProcess>(child: T): T {
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  return child
}

describe('a key file', () => {
  test('is read as it was written, is for its owner alone, and is never overwritten', async () => {
    const { keys, paths } = temporaryHome()

    expect(await keys.load('machine')).toBeUndefined()
    await keys.create('machine', key)

    expect(await keys.load('machine')).toEqual(key)
    expect(statSync(join(paths.keys, 'machine.key')).mode & 0o777).toBe(0o600)
    expect(statSync(paths.keys).mode & 0o777).toBe(0o700)
    await expect(keys.create('machine', new Uint8Array([9]))).rejects.toMatchObject({ code: 'already_exists' })
    expect(await keys.load('machine')).toEqual(key)
  })

  test('that others can read is refused with the command that closes it', async () => {
    const { keys, paths } = temporaryHome()
    await keys.create('mesh', key)
    chmodSync(join(paths.keys, 'mesh.key'), 0o640)

    await expect(keys.load('mesh')).rejects.toMatchObject({
      code: 'insecure_permissions',
      hint: expect.stringContaining('chmod 600') as string,
    })
  })

  test('that is a link is refused', async () => {
    const { keys, paths, root } = temporaryHome()
    await keys.create('mesh', key)
    writeFileSync(join(root, 'elsewhere'), 'x', { mode: 0o600 })
    symlinkSync(join(root, 'elsewhere'), join(paths.keys, 'machine.key'))

    await expect(keys.load('machine')).rejects.toMatchObject({ code: 'insecure_permissions' })
  })

  test('of a hub id that would leave the folder is refused', async () => {
    const { keys } = temporaryHome()

    await expect(
      keys.load('hub-../../../etc/passwd').catch((error: unknown) => Promise.reject(error)),
    ).rejects.toMatchObject({
      code: 'invalid_argument',
    })
  })
})

describe('the lock of a key', () => {
  test('names its holder, and can be taken again after its release', async () => {
    const { keys, root } = temporaryHome()
    const lock = await keys.lock('machine')

    await expect(openHome({ home: root, env: {} }).keys.lock('machine')).rejects.toMatchObject({
      code: 'key_held',
      details: { pid: process.pid },
    })
    expect(await keys.holder('machine')).toMatchObject({ pid: process.pid })
    await lock.release()

    expect(await keys.holder('machine')).toBeUndefined()
    await (await keys.lock('machine')).release()
  })

  test('of one key does not hold another', async () => {
    const { keys } = temporaryHome()

    await keys.lock('machine')
    await keys.lock('hub-one')
    await expect(keys.lock('hub-one')).rejects.toMatchObject({ code: 'key_held' })
  })

  test('goes to exactly one of many that ask at once', async () => {
    const { keys } = temporaryHome()

    const asked = await Promise.allSettled(Array.from({ length: 20 }, () => keys.lock('machine')))

    expect(asked.filter((outcome) => outcome.status === 'fulfilled')).toHaveLength(1)
  })

  test('of a process that was killed is free at once', async () => {
    const { keys, root } = temporaryHome()
    const holder = killedAtTheEnd(
      spawn(process.execPath, [racer, root, '', 'forever'], { stdio: ['ignore', 'pipe', 'inherit'] }),
    )
    await once(holder.stdout, 'data')
    await expect(keys.lock('machine')).rejects.toMatchObject({ code: 'key_held', details: { pid: holder.pid } })

    holder.kill('SIGKILL')
    await once(holder, 'exit')

    await expect(keys.lock('machine')).resolves.toBeDefined()
  })

  test('keeps two processes apart that take it 60 times each', async () => {
    const { root } = temporaryHome()
    const counter = join(root, 'counter')
    writeFileSync(counter, '0')

    const racers = [0, 1].map(() =>
      killedAtTheEnd(spawn(process.execPath, [racer, root, counter, '60'], { stdio: 'inherit' })),
    )
    const ends = await Promise.all(racers.map(async (child) => (await once(child, 'exit')) as unknown[]))

    expect(ends.map(([code]) => code)).toEqual([0, 0])
    expect(readFileSync(counter, 'utf8')).toBe('120')
  })
})
