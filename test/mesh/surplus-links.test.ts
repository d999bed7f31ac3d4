import { describe, expect, test } from 'vitest'
import { type MemberLink, MemberLinks } from '../../src/mesh/member-links.ts'
import { SurplusLinks } from '../../src/mesh/surplus-links.ts'
import type { PeerFacts } from '../../src/ports/peers.ts'
import { ManualClock } from '../contracts/manual-clock.ts'

describe('two links of one pair', () => {
  const hub = facts({ kind: 'hub', peerId: 'b' })
  const node = facts({ kind: 'node', peerId: 'a' })

  test('become one after a while: the one that is used stays, and the hub decides', async () => {
    const ofHub = await settled({ self: hub, peer: node, streams: [1, 0] })
    const ofNode = await settled({ self: node, peer: hub, streams: [1, 0] })

    expect(ofHub).toEqual(['open', 'closed'])
    expect(ofNode).toEqual(['open', 'open'])
  })

  test('of which none is used become the newest', async () => {
    expect(await settled({ self: hub, peer: node, streams: [0, 0, 0] })).toEqual(['closed', 'closed', 'open'])
  })

  test('of which the older one is silent become the newer one, although the older is in use, whoever decides', async () => {
    expect(await settled({ self: hub, peer: node, streams: [1, 0], silent: [0] })).toEqual(['aborted', 'open'])
    expect(await settled({ self: node, peer: hub, streams: [1, 0], silent: [0] })).toEqual(['aborted', 'open'])
  })

  test('that come one soon after the other do not end the last before it had its time', async () => {
    expect(await settled({ self: hub, peer: node, streams: [1, 0, 0], silent: [0, 1], apartMs: 2_900 })).toEqual([
      'aborted',
      'aborted',
      'open',
    ])
  })

  test('between two nodes are settled by one of them alone', async () => {
    const [a, b] = [facts({ kind: 'node', peerId: 'a' }), facts({ kind: 'node', peerId: 'b' })]

    expect(await settled({ self: a, peer: b, streams: [0, 0] })).toEqual(['closed', 'open'])
    expect(await settled({ self: b, peer: a, streams: [0, 0] })).toEqual(['open', 'open'])
  })

  async function settled(of: {
    readonly self: PeerFacts
    readonly peer: PeerFacts
    readonly streams: readonly number[]
    /** Which of them the peer does not answer on. */
    readonly silent?: readonly number[]
    readonly apartMs?: number
  }): Promise<readonly string[]> {
    const [clock, links] = [new ManualClock(), new MemberLinks()]
    const surplus = new SurplusLinks({ clock, links, self: () => of.self })
    const connections = of.streams.map((count) => new FakeConnection(count))
    for (const [index, connection] of connections.entries()) {
      const admission = {
        ping: () => (of.silent?.includes(index) === true ? new Promise(() => undefined) : Promise.resolve(1)),
        abort: () => connection.end('aborted'),
      }
      links.add({ connection, facts: of.peer, admission, incarnation: '1' } as unknown as MemberLink)
      surplus.look(of.peer.peerId)
      await clock.advance(of.apartMs ?? 0)
    }
    await clock.advance(10_000)
    return connections.map(({ status }) => status)
  }
})

/** As much of a connection as is looked at here. */
class FakeConnection extends EventTarget {
  status = 'open'
  readonly streams: readonly unknown[]

  constructor(streams: number) {
    super()
    this.streams = Array.from({ length: streams })
  }

  async close(): Promise<void> {
    this.end('closed')
  }

  end(status: string): void {
    this.status = status
    this.dispatchEvent(new Event('close'))
  }
}

function facts(of: Pick<PeerFacts, 'kind' | 'peerId'>): PeerFacts {
  return { ...of, machinePeerId: of.peerId, name: of.peerId, roles: [], softwareVersion: '0', path: 'lan' }
}
