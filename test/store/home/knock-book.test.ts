import { describe, expect, test } from 'vitest'
import { limits } from '../../../src/core/limits.ts'
import type { KnockRecord } from '../../../src/ports/home.ts'
import { temporaryHome } from './temporary-home.ts'

const nowMs = 1_800_000_000_000
const knock = (no: number, more: Partial<KnockRecord> = {}): KnockRecord => ({
  peerId: `12D3KooKnock${no}`,
  fingerprint: `SHA256:${String(no).padStart(64, '0')}`,
  name: `vm${no}`,
  roles: ['node'],
  sinceMs: nowMs + no,
  ...more,
})

describe('knocks', () => {
  test('wait in the order in which they came, each with what it said first', async () => {
    const book = (await temporaryHome()).issuer

    await book.addKnock(knock(2))
    await book.addKnock(knock(1))
    await book.addKnock(knock(2, { name: 'laptop', roles: ['owner'], sinceMs: nowMs + 50 }))

    expect(await book.knocks(nowMs + 60)).toEqual([knock(1), knock(2)])
  })

  test('are at most 32, and a day old', async () => {
    const book = (await temporaryHome()).issuer
    for (let no = 0; no < limits.knocksMax; no += 1) await book.addKnock(knock(no))

    await expect(book.addKnock(knock(99))).rejects.toMatchObject({ code: 'queue_full' })
    await book.addKnock(knock(3))
    await book.addKnock(knock(99, { sinceMs: nowMs + limits.knocksKeptMs + 10 }))

    const left = await book.knocks(nowMs + limits.knocksKeptMs + 10)
    expect(left.map(({ peerId }) => peerId)).toContain('12D3KooKnock99')
    expect(left).toHaveLength(limits.knocksMax - 10 + 1)
  })

  test('wait no longer once they are answered; the answer is remembered for a day', async () => {
    const book = (await temporaryHome()).issuer
    const { peerId } = knock(1)
    await book.addKnock(knock(1))
    const answer = { peerId, isApproved: true, roles: ['node'] as const, name: 'vm1', atMs: nowMs }

    await book.answerKnock(answer)

    expect(await book.knocks(nowMs)).toEqual([])
    expect(await book.findAnswer(peerId, nowMs + 1)).toEqual(answer)
    expect(await book.findAnswer(peerId, nowMs + limits.knocksKeptMs + 1)).toBeUndefined()
    expect(await book.findAnswer('12D3KooOther', nowMs)).toBeUndefined()
  })
})
