import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { expect, test } from 'vitest'
import { openLevelStore } from '../../src/store/level-store.ts'
import { testKeyspace } from '../contracts/test-keyspace.ts'
import { startWriter } from './campaigns/kills.ts'

test('a second process is told who holds the store, and opens it once that one was killed', async () => {
  const root = mkdtempSync(join(tmpdir(), 'nfltr-kill-'))
  const dir = join(root, 'held')
  const writer = startWriter(dir, 0)
  try {
    await writer.atLeast(1)

    const refused = await openLevelStore(dir, { keyspace: testKeyspace }).catch((error: unknown) => error)
    const holder: unknown = JSON.parse(readFileSync(join(dir, 'holder.json'), 'utf8'))
    await writer.kill()
    const store = await openLevelStore(dir, { keyspace: testKeyspace })

    expect(refused).toMatchObject({ code: 'store_held', details: { pid: writer.child.pid } })
    expect(holder).toMatchObject({ pid: writer.child.pid })
    expect(JSON.parse(readFileSync(join(dir, 'holder.json'), 'utf8'))).toMatchObject({ pid: process.pid })
    await store.close()
  } finally {
    await writer.kill()
    rmSync(root, { recursive: true, force: true })
  }
}, 30_000)
