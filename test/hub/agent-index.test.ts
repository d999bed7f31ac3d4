import { describe, expect, test } from 'vitest'
import type { Attempt } from '../../src/core/attempt.ts'
import { noUsage } from '../../src/core/model.ts'
import { decodeRecord, encodeRecord } from '../../src/core/record-json.ts'
import type { Agent, Task } from '../../src/core/task-record.ts'
import { newTask } from '../../src/core/task-step.ts'
import { AgentIndex } from '../../src/hub/agent-index.ts'
import { type AgentRow, keys, prefixes } from '../../src/hub/records.ts'
import { Engine } from '../../src/runtime/engine.ts'
import { MemoryDisk } from '../../src/store/memory-disk.ts'
import { type MemoryStore, openMemoryStore } from '../../src/store/memory-store.ts'

const task = newTask({ taskId: 'tsk_1', turn: 1, textHash: 'aa', timeoutMs: 1, atMs: 1 })
const end: Task['end'] = { outcome: 'completed', atMs: 2, deliveryId: 1, usage: noUsage, isSuperseded: false }
const attempt: Attempt = {
  attemptId: 'att_1',
  number: 1,
  epoch: 1,
  peerId: 'peer',
  machine: 'vm1',
  phase: 'ended',
  isSuperseded: false,
  hasLateResult: false,
}
const home = { peerId: 'peer', machine: 'vm1' }

function agent(no: number, changes: Partial<Task>, more: Partial<Agent> = {}): Agent {
  return {
    agentId: `agt_${no}`,
    no,
    filters: { labels: {}, requires: [] },
    lostAfterMs: 1,
    settings: {},
    startedAtMs: 1,
    tasks: [{ ...task, ...changes }],
    ...more,
  }
}

const ended = (no: number): Agent => agent(no, { end, attempts: [attempt] })

const names = (agents: readonly Agent[]): readonly string[] => agents.map(({ agentId }) => agentId)

/** A hub's agents over a disk that outlives it, as far as the index is concerned. */
class Kept {
  disk = new MemoryDisk()
  isKept = false
  /** How often an index was made anew. */
  made = 0
  store: MemoryStore | undefined
  engine: Engine | undefined

  async open(): Promise<AgentIndex> {
    this.store?.crash()
    this.store = await openMemoryStore({ disk: this.disk })
    this.engine = new Engine(this.store)
    return await AgentIndex.load({
      engine: this.engine,
      store: this.store,
      mark: {
        isKept: this.isKept,
        set: (tx, isKept) => {
          if (isKept) this.made += 1
          tx.afterDurable(() => {
            this.isKept = isKept
          })
        },
      },
    })
  }

  async keep(index: AgentIndex, ...agents: readonly Agent[]): Promise<void> {
    for (const one of agents) await this.engine?.transact((tx) => index.keep(tx, one, index.get(one.agentId)))
  }

  /** As a hub of the first version leaves them. */
  static withAgentsAlone(...agents: readonly Agent[]): Kept {
    const kept = new Kept()
    kept.disk.apply(agents.map((one) => ({ type: 'put', key: keys.agent(one.agentId), value: encodeRecord(one) })))
    return kept
  }
}

async function listed(index: AgentIndex, below = Number.POSITIVE_INFINITY, states?: string[]): Promise<string[]> {
  const found: string[] = []
  for await (const { agentId } of index.newestFirst(below, ({ state }) => states?.includes(state) ?? true)) {
    found.push(agentId)
  }
  return found
}

/** Everything that it says. */
async function said(index: AgentIndex) {
  const { states, usage } = { states: index.states(() => false), usage: index.usage() }
  return { open: names(index.open()), states, usage, nextNo: index.nextNo, listed: await listed(index) }
}

describe('the index of agents', () => {
  test('keeps apart what something may still come of', async () => {
    const kept = new Kept()
    const index = await kept.open()

    await kept.keep(
      index,
      ended(1),
      agent(2, { attempts: [{ ...attempt, phase: 'running' }] }),
      agent(3, { end, attempts: [{ ...attempt, phase: 'lost' }] }),
      agent(4, {}),
    )

    expect(names(index.open())).toEqual(['agt_2', 'agt_3', 'agt_4'])
    expect(await listed(index)).toEqual(['agt_4', 'agt_3', 'agt_2', 'agt_1'])
    expect(await listed(index, 3)).toEqual(['agt_2', 'agt_1'])
  })

  test('follows agents that end and that go on, oldest first, also over a restart', async () => {
    const kept = new Kept()
    const index = await kept.open()

    await kept.keep(index, ended(1), agent(2, {}), ended(2))
    expect(names(index.open())).toEqual([])
    await kept.keep(index, agent(3, {}), agent(1, { attempts: [attempt] }))

    const again = await kept.open()
    for (const one of [index, again]) {
      expect(names(one.open())).toEqual(['agt_1', 'agt_3'])
      expect(one.get('agt_2')?.tasks[0]?.end).toEqual(end)
      expect(one.get('agt_9')).toBeUndefined()
      expect(one.nextNo).toBe(4)
    }
    expect(kept.made).toBe(1)
  })

  test('counts states and what was used, also of agents that go on', async () => {
    const kept = new Kept()
    const index = await kept.open()
    const used = { ...noUsage, inputTokens: 7, costUsd: 0.1 }
    const one = agent(1, { end: { ...end, usage: used }, attempts: [attempt] })
    const idle: Agent = { ...one, agentId: 'agt_9', no: 2, sessionId: 's', home }
    await kept.keep(index, one, idle, agent(3, {}))

    for (const found of [index, await kept.open()]) {
      expect(found.states(() => false)).toEqual({ closed: 1, idle: 1, queued: 1 })
      expect(found.states(() => true)).toEqual({ closed: 2, queued: 1 })
      expect(found.usage()).toMatchObject({ inputTokens: 14, costUsd: 0.2 })
    }

    const next = await kept.open()
    await kept.keep(next, { ...idle, tasks: [...idle.tasks, { ...task, turn: 2 }] })
    expect(next.states(() => true)).toEqual({ closed: 1, queued: 2 })
    expect(next.usage()).toMatchObject({ inputTokens: 14, costUsd: 0.2 })
  })

  test('numbers the first agent 1', async () => {
    expect((await new Kept().open()).nextNo).toBe(1)
  })

  test('knows how long the newest turns of a machine took, once each', async () => {
    const kept = new Kept()
    const index = await kept.open()
    const timed = (no: number): Task => ({
      ...task,
      taskId: `tsk_${no}`,
      times: { progress: 1_000 },
      end: { outcome: 'completed', atMs: 1_000 + no, deliveryId: no, usage: noUsage, isSuperseded: false },
      attempts: [attempt],
    })
    const received = (no: number): Task => ({ ...timed(no), receiptId: `rcp_${no}` })
    for (let no = 1; no <= 40; no += 1) {
      const one = agent(no, {}, { home, tasks: [timed(no)] })
      await kept.keep(index, one, { ...one, tasks: [received(no)] }, { ...one, title: 'again', tasks: [received(no)] })
    }

    const spans = Array.from({ length: 32 }, (_, at) => at + 9)
    expect(index.machines()).toMatchObject([{ peerId: 'peer', spansMs: spans }])
    kept.isKept = false
    expect((await kept.open()).machines()).toMatchObject([{ peerId: 'peer', spansMs: spans }])
  })

  test('holds few of those that ended in memory, and what is not on disk yet whatever their number', async () => {
    const gate = Promise.withResolvers<void>()
    const kept = new Kept()
    await kept.open()
    kept.store?.crash()
    const store = await openMemoryStore({ disk: kept.disk, sync: () => gate.promise })
    const engine = new Engine(store)
    const mark = { isKept: true, set: () => undefined }
    const index = await AgentIndex.load({ engine, store, mark })

    const changes = Array.from({ length: 300 }, (_, at) =>
      engine.transact((tx) => index.keep(tx, ended(at + 1), undefined)),
    )
    expect(index.get('agt_1')).toEqual(ended(1))
    gate.resolve()
    await Promise.all(changes)
    await store.commit([{ type: 'delete', key: keys.agent('agt_2') }])
    // It is read from the disk now, where it was taken away under the index.
    expect(index.get('agt_2')).toBeUndefined()
    expect(index.get('agt_300')).toEqual(ended(300))
  })
})

describe('an index that is not there, or not whole,', () => {
  const agents = [ended(1), agent(2, {}), { ...ended(3), sessionId: 's', home }, agent(4, {})]

  async function whole() {
    const kept = new Kept()
    const index = await kept.open()
    await kept.keep(index, ...agents)
    return { kept, expected: await said(index) }
  }

  test('is made out of the agents: what an earlier version wrote is all there', async () => {
    const { expected } = await whole()
    const kept = Kept.withAgentsAlone(...agents)

    expect(await said(await kept.open())).toEqual(expected)
    expect(await said(await kept.open())).toEqual(expected)
    expect(kept.made).toBe(1)
  })

  test('is made anew after a hub of an earlier version worked with the store', async () => {
    const { kept } = await whole()
    const on = { ...ended(2), title: 'ended by the earlier version' }
    kept.store?.crash()
    kept.disk.apply([{ type: 'put', key: keys.agent('agt_2'), value: encodeRecord(on) }])
    kept.isKept = false

    const index = await kept.open()
    expect(names(index.open())).toEqual(['agt_4'])
    expect(await listed(index, 3, ['closed'])).toEqual(['agt_2', 'agt_1'])
  })

  test('is begun again where the process ended before all of it was written', async () => {
    const { expected } = await whole()
    const many = Array.from({ length: 1_200 }, (_, at) => ended(at + 5))
    const kept = Kept.withAgentsAlone(...agents, ...many)
    for (let batches = 1; batches < 8; batches += 1) {
      const store = await openMemoryStore({ disk: kept.disk })
      const engine = new Engine(store)
      let left = batches
      const commit = store.commit.bind(store)
      store.commit = async (batch) => {
        left -= 1
        await (left < 0 ? new Promise(() => undefined) : commit(batch))
      }
      let isMade = false
      const mark = {
        isKept: false,
        set: (_: unknown, isKept: boolean) => {
          isMade = isKept
        },
      }
      await Promise.race([AgentIndex.load({ engine, store, mark }), new Promise((resolve) => setImmediate(resolve))])
      store.crash()
      if (isMade) break
    }

    const index = await kept.open()
    expect(names(index.open())).toEqual(expected.open)
    expect(await listed(index)).toEqual([...many.toReversed(), ...agents.toReversed()].map(({ agentId }) => agentId))
  })

  test.each([
    ['an open agent is missing in it', keys.openAgent('agt_2')],
    ['its counts are missing', keys.agents],
  ])('is made anew where %s', async (_, key) => {
    const { kept, expected } = await whole()
    kept.store?.crash()
    kept.disk.apply([{ type: 'delete', key }])

    expect(await said(await kept.open())).toEqual(expected)
    expect(kept.made).toBe(2)
  })

  test.each([keys.openAgent('agt_4'), keys.agents, keys.machine('peer'), keys.machine('')])(
    'is made anew where %s is damaged',
    async (key) => {
      const { kept, expected } = await whole()
      kept.store?.crash()
      kept.disk.damage(key)

      expect(await said(await kept.open())).toEqual(expected)
      expect(kept.made).toBe(2)
    },
  )

  test('never hides an agent that is damaged itself', async () => {
    const { kept } = await whole()
    kept.store?.crash()
    kept.disk.damage(keys.agent('agt_4'))
    await expect(kept.open()).rejects.toMatchObject({ code: 'store_damaged' })
  })

  test('has a row for each agent, and only what ended says how', async () => {
    const { kept } = await whole()
    const rows: AgentRow[] = []
    for await (const { value } of kept.store?.scan(prefixes.agentNo) ?? []) rows.push(decodeRecord<AgentRow>(value))

    expect(rows).toEqual([
      { no: 4, agentId: 'agt_4' },
      { no: 3, agentId: 'agt_3', ended: { state: 'idle', peerId: 'peer' } },
      { no: 2, agentId: 'agt_2' },
      { no: 1, agentId: 'agt_1', ended: { state: 'closed', peerId: '' } },
    ])
  })
})
