import { describe, expect, test } from 'vitest'
import { decodeRecord } from '../../src/core/record-json.ts'
import { deathsMax, quarantinedMax } from '../../src/runtime/quarantine.ts'
import type { SessionCodec } from '../../src/runtime/session-codec.ts'
import { wireCodec } from '../../src/runtime/session-options.ts'
import type { MemoryDisk } from '../../src/store/memory-disk.ts'
import { encodeWork } from '../../src/wire/work-codec.ts'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import { connect, type HubSide, type NodeSide, openHub, openNode, say, textOf } from './session-harness.ts'

interface Kept {
  readonly no: number
  readonly kind: string
  readonly error: string
  readonly bytes: Uint8Array
}

function aside(disk: MemoryDisk): readonly Kept[] {
  return disk
    .entries()
    .filter(({ key }) => key.startsWith('quarantine/hub_1/1/'))
    .map(({ value }) => decodeRecord<Kept>(value))
}

const told = (hub: HubSide) => hub.applied.filter((message) => message.type === 'quarantined')

/** Writes some messages so that nobody can read them. */
const garbling: SessionCodec = {
  ...wireCodec,
  encodeWork: (message) => (textOf(message).startsWith('garbage') ? new Uint8Array([255, 255]) : encodeWork(message)),
}

describe('a message that cannot be read', () => {
  test('is set aside with its bytes, both sides are told, and what follows is applied over the same link', async () => {
    const clock = new ManualClock()
    const [hub, node] = [await openHub({ clock, codec: garbling }), await openNode({ clock })]
    await connect(hub, node, { clock })
    await hub.send(say('garbage'))
    await hub.send(say('next'))
    await settle()

    expect(aside(node.store.disk)).toMatchObject([{ no: 1, kind: 'unknown', bytes: new Uint8Array([255, 255]) }])
    expect(node.poisons).toMatchObject([{ no: 1, kind: 'unknown' }])
    expect(told(hub)).toMatchObject([{ no: 1, kind: 'unknown' }])
    expect(node.onDisk()).toEqual(['next'])
    expect(node.session.isAttached).toBe(true)
  })

  test('takes the place of the oldest one when many were set aside', async () => {
    const clock = new ManualClock()
    const [hub, node] = [await openHub({ clock, codec: garbling }), await openNode({ clock })]
    await connect(hub, node, { clock })
    for (let no = 1; no <= quarantinedMax + 3; no++) await hub.send(say(`garbage ${no}`))
    await settle()

    const numbers = aside(node.store.disk).map(({ no }) => no)
    expect(numbers).toHaveLength(quarantinedMax)
    expect(numbers[0]).toBe(4)
  })
})

/** A node that dies of one message in the given way, started again on its disk until it lives. */
async function startsUntilItLives(die: (node: NodeSide) => void) {
  const clock = new ManualClock()
  const hub = await openHub({ clock })
  for (const text of ['before', 'deadly', 'after']) await hub.send(say(text))
  let disk: MemoryDisk | undefined
  for (let starts = 1; starts <= 10; starts++) {
    let isDead = false
    const node: NodeSide = await openNode({
      clock,
      ...(disk === undefined ? {} : { disk }),
      react: (self, _tx, message) => {
        if (textOf(message) !== 'deadly') return
        isDead = true
        die(self)
      },
    })
    await connect(hub, node, { clock }).catch(() => undefined)
    await settle()
    if (!isDead) return { hub, node, starts }
    disk = node.store.crash()
  }
  throw new Error('it never lived')
}

describe('a message that kills its process', () => {
  test('by failing to apply is set aside at the next start', async () => {
    const { hub, node, starts } = await startsUntilItLives(() => {
      throw new Error('a bug')
    })

    expect(starts).toBeLessThanOrEqual(3)
    expect(aside(node.store.disk)).toMatchObject([{ no: 2, kind: 'steer', error: expect.stringContaining('a bug') }])
    expect(node.poisons).toMatchObject([{ no: 2, message: { type: 'steer', text: 'deadly' } }])
    expect(told(hub)).toMatchObject([{ no: 2, kind: 'steer' }])
    expect(node.onDisk()).toEqual(['before', 'after'])
  })

  test('without a word is set aside once it stood at the cursor through three deaths', async () => {
    const { hub, node, starts } = await startsUntilItLives((dying) => void dying.store.crash())

    // It was second in its batch first, and went alone from then on.
    expect(starts).toBe(deathsMax + 2)
    expect(aside(node.store.disk)).toMatchObject([{ no: 2, kind: 'steer' }])
    expect(told(hub)).toHaveLength(1)
    expect(node.onDisk()).toEqual(['before', 'after'])
  })

  test('is applied when it was not the message that killed it', async () => {
    const clock = new ManualClock()
    const hub = await openHub({ clock })
    await hub.send(say('innocent'))
    let disk: MemoryDisk | undefined
    for (let deaths = 0; deaths < deathsMax - 1; deaths++) {
      const dying = await openNode({
        clock,
        ...(disk === undefined ? {} : { disk }),
        react: (self) => void self.store.crash(),
      })
      await connect(hub, dying, { clock })
      await settle()
      disk = dying.store.disk
    }
    const node = await openNode({ clock, ...(disk === undefined ? {} : { disk }) })
    await connect(hub, node, { clock })
    await settle()

    expect(node.onDisk()).toEqual(['innocent'])
    expect(aside(node.store.disk)).toEqual([])
  })
})
