import { describe, expect, test } from 'vitest'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import { connect, note, openHub, openNode, stop, textOf } from './session-harness.ts'

async function pairUp(options: { bufferBytes?: number } = {}) {
  const clock = new ManualClock()
  const hub = await openHub({ clock })
  const node = await openNode({ clock })
  const link = await connect(hub, node, { clock, ...options })
  return { clock, hub, node, link }
}

describe('session', () => {
  test('brings messages to the other side once and in order, both ways', async () => {
    const { hub, node } = await pairUp()

    for (let no = 0; no < 50; no++) {
      void hub.send(stop(`down ${no}`))
      void node.send(note(`up ${no}`))
    }
    await settle()

    expect(node.applied.map(textOf)).toEqual(Array.from({ length: 50 }, (_, no) => `down ${no}`))
    expect(hub.applied.map(textOf)).toEqual(Array.from({ length: 50 }, (_, no) => `up ${no}`))
    expect(hub.session.outbox()).toEqual({ entries: 0, bytes: 0 })
    expect(node.session.outbox()).toEqual({ entries: 0, bytes: 0 })
    expect(hub.session.isCaughtUp).toBe(true)
    expect(node.session.isCaughtUp).toBe(true)
  })
})
