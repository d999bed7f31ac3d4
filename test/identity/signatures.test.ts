import { describe, expect, test } from 'vitest'
import { openReceipt, sealReceipt } from '../../src/identity/envelopes.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import { signedBytes, verifierInThreads } from '../../src/identity/signatures.ts'

const key = await generateKey()
const machinePeerId = peerIdOf(key)
const verify = verifierInThreads()

function receiptOf(attemptId: string): Promise<Uint8Array> {
  return sealReceipt(key, {
    hubId: 'hub',
    agentId: 'agt_1',
    taskId: 'tsk_1',
    attemptId,
    attempt: 1,
    owner: machinePeerId,
    inputsHash: 'aa',
    outcome: 'completed',
    resultHash: 'bb',
    claimedAtMs: 1,
    startedAtMs: 2,
    endedAtMs: 3,
    settledAtMs: 4,
    previousHash: '',
  })
}

describe('signatures checked in threads', () => {
  test('are taken as the library takes them, many at once', async () => {
    const ids = Array.from({ length: 40 }, (_, no) => `att_${no}`)
    const envelopes = await Promise.all(ids.map(receiptOf))

    const bodies = await Promise.all(envelopes.map((one) => openReceipt(one, { machinePeerId }, verify)))

    expect(bodies.map(({ attemptId }) => attemptId)).toEqual(ids)
    expect(bodies).toEqual(await Promise.all(envelopes.map((one) => openReceipt(one, { machinePeerId }))))
  })

  test('are refused with any byte changed, as the library refuses them', async () => {
    const envelope = await receiptOf('att_1')
    const changed = Array.from(envelope.keys(), (at) => envelope.with(at, (envelope[at] ?? 0) ^ 1))

    for (const check of [verify, undefined]) {
      const verdicts = await Promise.allSettled(changed.map((one) => openReceipt(one, { machinePeerId }, check)))
      expect(verdicts).toHaveLength(envelope.length)
      for (const verdict of verdicts) expect(verdict).toMatchObject({ reason: { code: 'bad_signature' } })
    }
  })

  test('are over domain, payload type and payload, each after its length', () => {
    const payload = new Uint8Array(300).fill(7)
    const expected = [2, 0x61, 0x62, 1, 9, 0xac, 0x02, ...payload]

    expect([...signedBytes('ab', Uint8Array.of(9), payload)]).toEqual(expected)
  })

  test('of no signature at all are false', async () => {
    expect(await verify(key.publicKey.raw, Uint8Array.of(1), new Uint8Array(0))).toBe(false)
    expect(await verify(key.publicKey.raw, Uint8Array.of(1), await key.sign(Uint8Array.of(1)))).toBe(true)
  })
})
