import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { AuditReport } from '../../src/audit/audit-run.ts'
import { auditHub } from '../../src/cli/commands/audit.ts'
import type { CliIo } from '../../src/cli/io.ts'
import type { AttemptResult } from '../../src/core/model.ts'
import type { ReceiptBody } from '../../src/core/receipt.ts'
import { decodeRecord, encodeRecord } from '../../src/core/record-json.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openLevelStore } from '../../src/store/level-store.ts'
import { nodeFacts } from '../contracts/memory-link.ts'
import { Pair } from './pair.ts'

let pair: Pair
beforeEach(async () => {
  pair = new Pair()
  await pair.start()
})
afterEach(() => pair.close())

/** `nfltr audit` of the hub as it runs, which asks its node. */
async function audit(): Promise<AuditReport> {
  const { hub } = pair.running
  return await auditHub(
    {
      io: {} as CliIo,
      open: async () => ({
        hubId: 'hub_1',
        account: (from) => hub.account(from),
        node: (peerId) => (after) => hub.nodeAccount(peerId, after),
        [Symbol.asyncDispose]: async () => undefined,
      }),
      nodeHere: async () => undefined,
      pause: (ms) => new Promise((resolve) => void systemClock().after(ms, resolve)),
      sha256: (text) => createHash('sha256').update(text).digest('hex'),
      readFile: () => Promise.reject(new Error('no file is read')),
      // What the node of a pair signs is its body as it is.
      openReceipt: async ({ receiptId, envelope }) => {
        expect(receiptId).toBe(`rcp_${createHash('sha256').update(envelope).digest('hex')}`)
        return JSON.parse(new TextDecoder().decode(envelope)) as ReceiptBody
      },
    },
    {},
  )
}

const found = ({ violations }: AuditReport): readonly string[] =>
  violations.map(({ check, message }) => `${check}: ${message}`)

/** Audits over and over while work goes on. `audits` counts those that are over, for work that waits for some. */
async function auditedWhile(work: (audits: () => number) => Promise<unknown>): Promise<readonly AuditReport[]> {
  const reports: AuditReport[] = []
  let isOver = false
  const over = work(() => reports.length).finally(() => {
    isOver = true
  })
  while (!isOver) reports.push(await audit())
  await over
  return reports
}

/** Enough for every part of an account to have been read while something happened. */
const auditsAtWork = 12

describe('an audit while work goes on', () => {
  test('accuses nobody, whatever ends, begins or is signed between its two readings', async () => {
    let spawned = 0
    const round = async (): Promise<void> => {
      const ids = await Promise.all(Array.from({ length: 6 }, (_, index) => pair.spawn(`task ${spawned + index}`)))
      spawned += ids.length
      await pair.until(Object.fromEntries(ids.map((id) => [id, 'running'])))
      await Promise.all(ids.map((id) => pair.end(id)))
      await pair.results(ids.length)
    }

    const reports = await auditedWhile(async (audits) => {
      while (audits() < auditsAtWork) await round()
    })

    expect(reports.flatMap(found)).toEqual([])
    expect(reports.filter(({ nodes }) => nodes === 1).length).toBeGreaterThanOrEqual(auditsAtWork - 1)
    await expect.poll(audit, { timeout: 10_000 }).toMatchObject({ nodes: 1, notAsked: [], receipts: spawned })
  }, 60_000)

  test('accuses nobody where the node goes away and comes back, also with a store that was put back', async () => {
    const [ends, runs] = [await pair.spawn('ends later'), await pair.spawn('goes on')]
    await pair.until({ [ends]: 'running', [runs]: 'running' })
    await pair.backUp('node')
    await pair.until({ [ends]: 'running', [runs]: 'running' })
    await pair.end(ends)
    await pair.results(1)

    const reports = await auditedWhile(async () => {
      await pair.stop('node')
      await pair.startAgain('node')
      await pair.until({ [ends]: 'idle', [runs]: 'running' })
      // By this store the turn that ended runs.
      await pair.putBack('node', { isNoticed: true })
      await pair.until({ [ends]: 'idle', [runs]: 'running' })
      await pair.end(runs)
      await pair.results(1)
    })

    expect(reports.flatMap(found)).toEqual([])
  }, 60_000)

  test('names a node that is away, and asks it again once it is back', async () => {
    await pair.spawn('read end')
    await pair.results(1)

    await pair.stop('node')
    const alone = await audit()
    await pair.startAgain('node')

    expect(alone).toMatchObject({ nodes: 0, notAsked: [{ name: 'vm1', why: { code: 'link_down' } }], violations: [] })
    expect(await audit()).toMatchObject({ nodes: 1, notAsked: [], violations: [] })
  })
})

test('a node whose store was doctored is named for what it says otherwise', async () => {
  const agentId = await pair.spawn('read end')
  await pair.results(1)
  await expect.poll(() => pair.account()).toMatchObject([{ receiptId: expect.stringMatching(/^rcp_/) }])
  expect(found(await audit())).toEqual([])
  const [attempt] = await pair.account()

  await pair.stop('node')
  const store = await openLevelStore(join(pair.root, 'node'))
  const key = `node/result/${attempt?.attemptId}`
  const result = decodeRecord<AttemptResult>((await store.get(key)) ?? new Uint8Array())
  await store.commit([{ type: 'put', key, value: encodeRecord({ ...result, text: 'something else' }) }])
  await store.close()
  await pair.startAgain('node')

  const { violations } = await audit()
  expect(violations).toMatchObject([{ check: 'same-result', agentId }])
  expect(violations[0]?.message).toContain(nodeFacts.peerId)
})
