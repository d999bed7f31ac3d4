import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, describe, expect, test } from 'vitest'
import { openLevelStore } from '../../src/store/level-store.ts'
import { collect } from '../contracts/store.ts'
import { testKeyspace } from '../contracts/test-keyspace.ts'

const root = mkdtempSync(join(tmpdir(), 'nfltr-kill-'))
const children = new Set<ChildProcess>()
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(root, { recursive: true, force: true })
})

/** A process that writes until it is killed, and what it told to be on disk. */
function startWriter(dir: string, round: number) {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'kill-writer.ts'), dir, String(round)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.add(child)
  const acked: string[] = []
  let rest = ''
  let want = Number.POSITIVE_INFINITY
  const reached = Promise.withResolvers<void>()
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    acked.push(...lines)
    if (acked.length >= want) reached.resolve()
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  void ended.then(() => {
    children.delete(child)
    reached.reject(new Error(`the writer ended after ${acked.length} batches`))
  })
  reached.promise.catch(() => undefined)
  return {
    child,
    acked,
    atLeast: (count: number): Promise<void> => {
      want = count
      if (acked.length >= count) reached.resolve()
      return reached.promise
    },
    kill: async (): Promise<void> => {
      child.kill('SIGKILL')
      await ended
    },
  }
}

/** Kills one writer after the other on one store, and looks at what is there after each. */
async function killOften(dir: string, kills: number): Promise<{ readonly acked: number; readonly kept: number }> {
  const acked = new Set<string>()
  let kept = 0
  for (let round = 0; round < kills; round++) {
    const writer = startWriter(dir, round)
    await writer.atLeast(20 + ((round * 37) % 100))
    await writer.kill()
    for (const id of writer.acked) acked.add(id)

    const store = await openLevelStore(dir, { keyspace: testKeyspace })
    const left = (await collect(store.scan('test/left/'))).map(([key]) => key.slice('test/left/'.length))
    const right = (await collect(store.scan('test/right/'))).map(([key]) => key.slice('test/right/'.length))
    await store.close()

    expect(left, `round ${round}: no batch is torn`).toEqual(right)
    const found = new Set(left)
    expect(
      [...acked].filter((id) => !found.has(id)),
      `round ${round}: nothing acknowledged is lost`,
    ).toEqual([])
    kept = left.length
  }
  return { acked: acked.size, kept }
}

describe('LevelDB', () => {
  test('loses nothing acknowledged and tears nothing, killed 30 times in the middle of writing', async () => {
    const kills = 15
    const stores = await Promise.all([killOften(join(root, 'a'), kills), killOften(join(root, 'b'), kills)])

    for (const { acked, kept } of stores) {
      expect(acked).toBeGreaterThan(20 * kills)
      expect(kept).toBeGreaterThanOrEqual(acked)
    }
  }, 120_000)

  test('tells a second process who holds the store, and opens once that one was killed', async () => {
    const dir = join(root, 'held')
    const writer = startWriter(dir, 0)
    await writer.atLeast(1)

    const refused = await openLevelStore(dir, { keyspace: testKeyspace }).catch((error: unknown) => error)
    const holder: unknown = JSON.parse(readFileSync(join(dir, 'holder.json'), 'utf8'))
    await writer.kill()
    const store = await openLevelStore(dir, { keyspace: testKeyspace })

    expect(refused).toMatchObject({ code: 'store_held', details: { pid: writer.child.pid } })
    expect(holder).toMatchObject({ pid: writer.child.pid })
    expect(JSON.parse(readFileSync(join(dir, 'holder.json'), 'utf8'))).toMatchObject({ pid: process.pid })
    await store.close()
  }, 30_000)
})
