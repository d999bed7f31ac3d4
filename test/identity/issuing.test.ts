import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { openMembership } from '../../src/identity/envelopes.ts'
import { type IssuerKey, meshIssuer } from '../../src/identity/issuer-key.ts'
import { issueMembership } from '../../src/identity/issuing.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import { createMesh, ensureKey } from '../../src/identity/mesh-setup.ts'
import type { Home, InviteRecord, IssuerBook } from '../../src/ports/home.ts'
import { temporaryHome } from '../store/home/temporary-home.ts'

const nowMs = 1_800_000_000_000
/** Thousands of synced files: seconds on a quiet disk, more on a busy one. */
const manyWrites = { timeout: 180_000 }

async function owner(): Promise<{ home: Home; book: IssuerBook; signer: IssuerKey; meshId: string }> {
  const home = temporaryHome()
  const { meshId } = await createMesh(home, { name: 'laptop', nowMs })
  return { home, book: home.issuer, signer: meshIssuer(await ensureKey(home, 'mesh')), meshId }
}

async function invite(book: IssuerBook, over: Partial<InviteRecord> = {}): Promise<string> {
  const inviteId = randomBytes(16).toString('hex')
  const term = { createdAtMs: nowMs, expiresAtMs: nowMs + 900_000 }
  await book.addInvite({ inviteId, secret: randomBytes(16), roles: ['node'], ...term, ...over })
  return inviteId
}

const newPeerId = async (): Promise<string> => peerIdOf(await generateKey())

describe('a membership by invite', () => {
  test('has the roles and the name of the invite, whatever the joiner wants', async () => {
    const { book, signer, meshId } = await owner()
    const joinerPeerId = await newPeerId()
    const inviteId = await invite(book, { name: 'vm1', roles: ['hub', 'observer'] })

    const issued = await issueMembership(book, signer, { inviteId, joinerPeerId, nameWanted: 'king', nowMs })

    expect(issued.membership).toMatchObject({
      name: 'vm1',
      roles: ['hub', 'observer'],
      machinePeerId: joinerPeerId,
      serial: 2,
    })
    expect(await openMembership(issued.envelope, { meshId })).toEqual(issued.membership)
  })

  test('is one and the same for the joiner that asks again, also twice at once', async () => {
    const { book, signer } = await owner()
    const request = { inviteId: await invite(book), joinerPeerId: await newPeerId(), nameWanted: 'vm1', nowMs }

    const both = await Promise.all([issueMembership(book, signer, request), issueMembership(book, signer, request)])
    const later = await issueMembership(book, signer, { ...request, nowMs: nowMs + 10_000_000 })

    expect(both[1]).toEqual(both[0])
    expect(later).toEqual(both[0])
  })

  test('goes to exactly one of two joiners that race for it, 200 times', manyWrites, async () => {
    const { book, signer } = await owner()
    const joiners = [await newPeerId(), await newPeerId()]

    for (let round = 0; round < 200; round++) {
      const inviteId = await invite(book, { name: `vm-${round}`, createdAtMs: nowMs })
      const outcomes = await Promise.allSettled(
        joiners.map((joinerPeerId) => issueMembership(book, signer, { inviteId, joinerPeerId, nowMs })),
      )
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      const [loser] = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
      expect(loser).toMatchObject({ code: 'invite_used' })
    }
  })

  test.each(['takeName', 'nextSerial', 'settleClaim'] as const)(
    'is had on the next try by the joiner whose first try broke off at %s, and by nobody else',
    async (step) => {
      const { book, signer } = await owner()
      const request = { inviteId: await invite(book), joinerPeerId: await newPeerId(), nameWanted: 'vm1', nowMs }
      const broken: IssuerBook = { ...book, [step]: () => Promise.reject(new Error('power cut')) }
      await expect(issueMembership(broken, signer, request)).rejects.toThrow('power cut')

      await expect(
        issueMembership(book, signer, { ...request, joinerPeerId: await newPeerId() }),
      ).rejects.toMatchObject({ code: 'invite_used' })
      const issued = await issueMembership(book, signer, request)

      expect(issued.membership).toMatchObject({ machinePeerId: request.joinerPeerId, name: 'vm1' })
    },
  )

  test('a name that cannot be had does not cost the invite', async () => {
    const { book, signer } = await owner()
    const request = { inviteId: await invite(book), joinerPeerId: await newPeerId(), nowMs }

    for (const nameWanted of ['laptop', 'Not A Name', '', undefined]) {
      const refused = issueMembership(book, signer, { ...request, nameWanted })
      await expect(refused).rejects.toMatchObject({ code: nameWanted === 'laptop' ? 'name_taken' : 'invalid_argument' })
    }

    expect(await book.findClaim(request.inviteId)).toBeUndefined()
    await expect(issueMembership(book, signer, { ...request, nameWanted: 'vm2' })).resolves.toBeDefined()
  })

  test('takes over a name only where the owner said so', async () => {
    const { book, signer } = await owner()
    const first = { inviteId: await invite(book), joinerPeerId: await newPeerId(), nameWanted: 'vm1', nowMs }
    await issueMembership(book, signer, first)
    const second = { joinerPeerId: await newPeerId(), nameWanted: 'vm1', nowMs }

    await expect(issueMembership(book, signer, { ...second, inviteId: await invite(book) })).rejects.toMatchObject({
      code: 'name_taken',
    })
    const replacing = await issueMembership(book, signer, {
      ...second,
      inviteId: await invite(book, { replaces: 'vm1' }),
    })

    expect(replacing.membership.name).toBe('vm1')
    expect(await book.ownerOfName('vm1')).toBe(second.joinerPeerId)
  })

  test('is refused for an invite that expired', async () => {
    const { book, signer } = await owner()
    const inviteId = await invite(book, { expiresAtMs: nowMs + 1 })

    const late = { inviteId, joinerPeerId: await newPeerId(), nameWanted: 'vm1', nowMs: nowMs + 2 }
    await expect(issueMembership(book, signer, late)).rejects.toMatchObject({ code: 'invite_expired' })
  })
})
