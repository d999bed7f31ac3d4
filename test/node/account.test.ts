import { expect, test } from 'vitest'
import { limits } from '../../src/core/limits.ts'
import type { AccountAnswer } from '../../src/core/node-account.ts'
import type { NodeAttempt } from '../../src/core/node-attempt-state.ts'
import { encodeRecord } from '../../src/core/record-json.ts'
import { Accounts } from '../../src/node/account.ts'
import type { Store } from '../../src/ports/store.ts'
import { Engine } from '../../src/runtime/engine.ts'
import { MemoryDisk } from '../../src/store/memory-disk.ts'
import { openMemoryStore } from '../../src/store/memory-store.ts'
import { sha256 } from '../audit/support/audited.ts'
import { settle } from '../contracts/manual-clock.ts'
import { hubFacts } from '../contracts/memory-link.ts'
import { claim, ref, World } from './world.ts'

const asker = { ...hubFacts, hubId: 'hub_1', machinePeerId: 'hub-machine' }
const record = { hubId: 'hub_1', machinePeerId: 'hub-machine', receiptHead: '' }

interface Kept {
  readonly hubId: string
  readonly phase?: NodeAttempt['phase']
  readonly text?: string
  readonly end?: Partial<NodeAttempt['end']>
}

/** Accounts over a store that holds these attempts, as a node writes them. */
async function accountsOf(kept: Readonly<Record<string, Kept>>): Promise<Accounts> {
  const store = await openMemoryStore({ disk: new MemoryDisk() })
  const puts = Object.entries(kept).flatMap(([attemptId, { hubId, phase = 'collected', text, end }]) => {
    const head = { phase, hubId, ref: { ...ref('a0'), attemptId }, end }
    const value = encodeRecord(head)
    const put = { type: 'put', key: `node/attempt/${attemptId}`, value } as const
    if (text === undefined) return [put]
    return [put, { type: 'put', key: `node/result/${attemptId}`, value: encodeRecord({ text }) } as const]
  })
  await store.commit(puts)
  const hub = (hubId: string) => (hubId === 'hub_1' ? record : undefined)
  return new Accounts({ engine: new Engine(store), store, peerId: 'node-machine', hub })
}

async function pagesOf(accounts: Accounts): Promise<readonly AccountAnswer[]> {
  const pages: AccountAnswer[] = []
  for (let after: string | undefined; pages.at(-1)?.isLast !== true; after = pages.at(-1)?.attempts.at(-1)?.attemptId) {
    pages.push(await accounts.answer(asker, after))
  }
  return pages
}

const idsOn = ({ attempts }: AccountAnswer): readonly string[] => attempts.map(({ attemptId }) => attemptId)

test('tells a running turn, and the result and receipt of one that was collected', async () => {
  const world = await World.open()
  await world.hub.send(claim('a1'))
  await world.run()
  const ask = world.answerAccount
  if (ask === undefined) throw new Error('the node answers nobody')
  const open = await ask(world.hub.facts, undefined)
  expect(open).toMatchObject({ attempts: [{ attemptId: 'att_a1', epoch: 1, isOpen: true }], isLast: true })
  expect(open.attempts[0]).not.toHaveProperty('textHash')

  await world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref('a1') })
  await world.run(60_000)
  await settle()

  const { result } = world.hub.received.find((message) => message.type === 'ended') ?? {}
  expect(await ask(world.hub.facts, undefined)).toMatchObject({
    attempts: [{ attemptId: 'att_a1', isOpen: false, textHash: sha256(result?.text ?? ''), receiptId: 'rcp_1' }],
  })
})

test('tells a hub of its own attempts alone, and a process of another machine nothing', async () => {
  const accounts = await accountsOf({
    a1: { hubId: 'hub_2' },
    a2: { hubId: 'hub_1' },
    a3: { hubId: 'hub_2' },
    a4: { hubId: 'hub_1' },
    a5: { hubId: 'hub_2' },
  })

  expect((await pagesOf(accounts)).map(idsOn)).toEqual([['a2', 'a4']])
  // What another hub has is nobody's to page through, wherever the question begins.
  expect(await accounts.answer(asker, 'a2')).toMatchObject({ attempts: [{ attemptId: 'a4' }], isLast: true })
  expect(await accounts.answer({ ...asker, hubId: 'hub_3' }, undefined)).toEqual({ attempts: [], isLast: true })
  await expect(accounts.answer({ ...asker, machinePeerId: 'another' }, undefined)).rejects.toMatchObject({
    code: 'bad_certificate',
  })
})

test('leaves out what was declined, and the text of what is gone or counts as lost', async () => {
  const accounts = await accountsOf({
    a1: { hubId: 'hub_1', phase: 'declined' },
    a2: { hubId: 'hub_1', phase: 'forgotten' },
    a3: { hubId: 'hub_1', phase: 'ended', text: 'pieced together', end: { keeperGone: 'it is gone' } },
    a4: { hubId: 'hub_1', phase: 'ended', text: 'kept' },
  })

  const [page] = await pagesOf(accounts)

  expect(page?.attempts.map(({ attemptId, textHash }) => [attemptId, textHash])).toEqual([
    ['a2', undefined],
    ['a3', undefined],
    ['a4', sha256('kept')],
  ])
})

test('pages by number, and ends a page early for which much has to be read', async () => {
  const many = Array.from({ length: 2 * limits.accountPageMax + 1 }, (_, index) => `a${String(index).padStart(6, '0')}`)
  const hubId = 'hub_1'
  const long = 'x'.repeat(5 * 1024 * 1024)
  const numbered = await accountsOf(Object.fromEntries(many.map((id) => [id, { hubId, phase: 'forgotten' }])))
  const heavy = await accountsOf({
    a1: { hubId, text: long },
    a2: { hubId, text: long },
    a3: { hubId, text: long },
    a4: { hubId },
  })

  const pages = await pagesOf(numbered)

  expect(pages.map(({ attempts }) => attempts.length)).toEqual([limits.accountPageMax, limits.accountPageMax, 1])
  expect(pages.flatMap(idsOn)).toEqual(many)
  expect((await pagesOf(heavy)).map(idsOn)).toEqual([
    ['a1', 'a2'],
    ['a3', 'a4'],
  ])
})

test('reads one page of a hub at a time, whatever it asks for', async () => {
  const store = await openMemoryStore({ disk: new MemoryDisk() })
  let reading = 0
  let most = 0
  const scan: Store['scan'] = async function* () {
    reading += 1
    most = Math.max(most, reading)
    await settle()
    reading -= 1
    yield* []
  }
  Object.assign(store, { scan })
  const of = (machine: string) => ({ ...asker, hubId: `hub_${machine}` })
  const hub = (hubId: string) => ({ ...record, hubId })
  const accounts = new Accounts({ engine: new Engine(store), store, peerId: 'node-machine', hub })

  await Promise.all(['1', '1', '1'].map((machine) => accounts.answer(of(machine), undefined)))
  expect(most).toBe(1)
  await Promise.all(['1', '2', '3'].map((machine) => accounts.answer(of(machine), undefined)))
  expect(most).toBe(3)
})
