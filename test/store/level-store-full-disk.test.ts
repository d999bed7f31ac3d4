import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, describe, expect, test } from 'vitest'
import { Engine } from '../../src/runtime/engine.ts'
import { openLevelStore } from '../../src/store/level-store.ts'
import { collect } from '../contracts/store.ts'
import { put, testKeyspace } from '../contracts/test-keyspace.ts'

const root = mkdtempSync(join(tmpdir(), 'nfltr-full-'))
const disk = join(root, 'disk')
mkdirSync(disk)
const isMounted =
  process.getuid?.() === 0 && spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', disk]).status === 0
afterAll(() => {
  if (isMounted) spawnSync('umount', [disk])
  rmSync(root, { recursive: true, force: true })
})
if (!isMounted) process.stderr.write('skipped: a full disk needs the right to mount a tmpfs\n')

describe.skipIf(!isMounted)('LevelDB on a full disk', () => {
  test('ends cleanly, keeps what it acknowledged, and goes on once there is space', async () => {
    const dir = join(disk, 'store')
    const ballast = join(disk, 'ballast')
    writeFileSync(ballast, Buffer.alloc(8 * 1024 * 1024))
    const store = await openLevelStore(dir, { keyspace: testKeyspace })
    const engine = new Engine(store)
    const acked: string[] = []
    let effects = 0
    const key = (no: number): string => `test/${String(no).padStart(6, '0')}`

    let failure: unknown
    for (let no = 0; no < 20_000 && failure === undefined; no++) {
      // Bytes that do not compress.
      const text = Buffer.from(crypto.getRandomValues(new Uint8Array(8_000))).toString('base64')
      await engine
        .transact((tx) => {
          tx.put(key(no), new TextEncoder().encode(text))
          tx.afterDurable(() => {
            effects += 1
          })
        })
        .then(
          () => acked.push(key(no)),
          (error: unknown) => {
            failure = error
          },
        )
    }

    expect(failure).toMatchObject({ code: 'disk_full' })
    expect(await store.failed).toMatchObject({ code: 'disk_full' })
    expect(await engine.failed).toMatchObject({ code: 'disk_full' })
    expect(effects).toBe(acked.length)
    expect(acked.length).toBeGreaterThan(100)
    await expect(store.commit([put('test/a', 'x')])).rejects.toMatchObject({ code: 'disk_full' })
    expect(await store.get(key(0))).toBeDefined()
    await store.close()

    rmSync(ballast)
    const again = await openLevelStore(dir, { keyspace: testKeyspace })
    const found = new Set((await collect(again.scan('test/'))).map(([name]) => name))
    expect(acked.filter((name) => !found.has(name))).toEqual([])
    await again.commit([put('test/goes-on', 'x')])
    expect(await again.get('test/goes-on')).toBeDefined()
    await again.close()
  }, 60_000)
})
