import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { LaneCursor } from '../../src/core/messages.ts'
import { judgeOpening, type LaneAccount } from '../../src/core/rollback.ts'
import { emptyLaneHash, type StoreMark } from '../../src/core/session-lane.ts'

const own: StoreMark = { storeId: 'own', incarnation: 3 }
const peer: StoreMark = { storeId: 'peer', incarnation: 5 }
const account: LaneAccount = { peer, sent: 10, acked: 6, received: 4 }

function told(overrides: Partial<LaneCursor> = {}): LaneCursor {
  return { lane: 1, ...peer, sent: 7, received: 8, acked: 3, hash: hashAt(8), peer: own, ...overrides }
}

function hashAt(no: number): string {
  return no === 0 ? emptyLaneHash : no.toString(16).padStart(16, '0')
}

function judge(cursor: LaneCursor, mine: LaneAccount = account) {
  const { received } = cursor
  const isKept = received >= mine.acked && received <= mine.sent
  return judgeOpening(mine, { own, peer: cursor, hashAtReceived: isKept ? hashAt(received) : undefined })
}

describe('the openings of two stores', () => {
  test('fit where nothing was lost, whatever is on its way', () => {
    expect(judge(told())).toEqual({ type: 'fits', peer: told() })
  })

  const mine: [string, Partial<LaneCursor>, string][] = [
    ['the peer has more than was ever sent', { received: 11, hash: hashAt(11) }, 'received_above_sent'],
    ['the peer got acknowledgements for more than is here', { acked: 5 }, 'acked_above_received'],
    ['the peer has something else under these numbers', { hash: hashAt(9) }, 'other_hash'],
    ['the peer knows a later incarnation', { peer: { storeId: 'own', incarnation: 4 } }, 'newer_incarnation'],
  ]
  test.each(mine)('show that this store was put back when %s', (_name, overrides, fault) => {
    const opening = judge(told(overrides))

    expect(opening).toMatchObject({ type: 'own_rollback', fault })
    // Above every incarnation that anybody has seen.
    expect(opening).toHaveProperty('incarnation', overrides.peer === undefined ? 4 : 5)
  })

  const theirs: [string, Partial<LaneCursor>, string][] = [
    ['it lacks what it acknowledged', { received: 5, hash: hashAt(5) }, 'received_below_acked'],
    ['it does not know what it sent', { sent: 3 }, 'sent_below_received'],
    ['it is of an earlier incarnation', { incarnation: 4 }, 'older_incarnation'],
  ]
  test.each(theirs)('show that the store of the peer was put back, and that it has not noticed, when %s', (...row) => {
    expect(judge(told(row[1]))).toEqual({ type: 'fault', fault: row[2] })
  })

  test('begin anew with a peer that has a new store or took a new incarnation', () => {
    const nothing = { sent: 0, received: 0, acked: 0, hash: emptyLaneHash }

    expect(judge(told({ ...nothing, incarnation: 6 }))).toMatchObject({ type: 'restart' })
    expect(judge(told({ ...nothing, storeId: 'another', incarnation: 1 }))).toMatchObject({ type: 'restart' })
  })

  test('begin anew when the peer speaks of a store that this side no longer has, whatever its numbers are', () => {
    const fresh: LaneAccount = { peer, sent: 2, acked: 0, received: 0 }

    expect(judge(told({ peer: { storeId: 'own', incarnation: 2 } }), fresh)).toMatchObject({
      type: 'restart',
      peer: { sent: 0, received: 0, acked: 0, hash: emptyLaneHash },
    })
    expect(judge(told({ peer: { storeId: 'lost', incarnation: 9 } }), fresh)).toMatchObject({ type: 'restart' })
  })

  test('are told apart by a version that does not say what it knows of this side', () => {
    const { acked: _, peer: __, ...plain } = told()
    expect(judge(plain)).toMatchObject({ type: 'fits' })
    expect(judge({ ...plain, received: 12 })).toMatchObject({ type: 'own_rollback' })
  })

  test('of which one was put back are noticed by exactly that one, and by the other never', () => {
    const side = fc.record({ sent: fc.nat(20), receivedLag: fc.nat(5), ackLag: fc.nat(5) })
    fc.assert(
      fc.property(side, side, fc.record({ sent: fc.nat(20), received: fc.nat(20) }), (toB, toA, lost) => {
        // What was sent each way, how much of it arrived, and how much of that is known to have arrived.
        const arrivedB = Math.max(0, toB.sent - toB.receivedLag)
        const arrivedA = Math.max(0, toA.sent - toA.receivedLag)
        const a: LaneAccount = {
          peer,
          sent: toB.sent,
          acked: Math.max(0, arrivedB - toB.ackLag),
          received: arrivedA,
        }
        const b: LaneAccount = {
          peer: own,
          sent: toA.sent,
          acked: Math.max(0, arrivedA - toA.ackLag),
          received: arrivedB,
        }
        // B is put back to a time when it had sent and received less.
        const back: LaneAccount = {
          peer: own,
          sent: Math.min(b.sent, lost.sent),
          acked: Math.min(b.acked, lost.sent),
          received: Math.min(b.received, lost.received),
        }
        const hash = (from: LaneAccount, no: number) => (no >= from.acked && no <= from.sent ? hashAt(no) : undefined)
        const cursor = (of: LaneAccount, mark: StoreMark, about: StoreMark): LaneCursor => ({
          lane: 1,
          ...mark,
          sent: of.sent,
          received: of.received,
          acked: of.acked,
          hash: hashAt(of.received),
          peer: about,
        })
        const cursorA = cursor(a, own, peer)
        const cursorB = cursor(back, peer, own)
        const seenByB = judgeOpening(back, {
          own: peer,
          peer: cursorA,
          hashAtReceived: hash(back, cursorA.received),
        })
        const seenByA = judgeOpening(a, { own, peer: cursorB, hashAtReceived: hash(a, cursorB.received) })

        expect(seenByA.type).not.toBe('own_rollback')
        expect(seenByA.type === 'fault').toBe(seenByB.type === 'own_rollback')
      }),
      { numRuns: 2_000 },
    )
  })
})
