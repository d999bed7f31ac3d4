import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { createInterface } from 'node:readline'
import { describe, expect, onTestFinished, test } from 'vitest'
import { limits } from '../../../src/core/limits.ts'
import type { InviteRecord } from '../../../src/ports/home.ts'
import { openHome } from '../../../src/store/home/home.ts'
import { invitesMax } from '../../../src/store/home/issuer-book.ts'
import { temporaryHome } from './temporary-home.ts'

const racer = join(import.meta.dirname, 'racers/claim.ts')

function invite(over: Partial<InviteRecord> = {}): InviteRecord {
  return {
    inviteId: randomBytes(16).toString('hex'),
    secret: new Uint8Array(16).fill(3),
    roles: ['node'],
    createdAtMs: 1_000,
    expiresAtMs: 901_000,
    ...over,
  }
}

/** Thousands of synced files: seconds on a quiet disk, more on a busy one. */
const manyWrites = { timeout: 180_000 }

const one = { peerId: 'one', fingerprint: 'SHA256:one', nowMs: 2_000 }
const two = { peerId: 'two', fingerprint: 'SHA256:two', nowMs: 3_000 }

describe('an invite', () => {
  test('is remembered with its secret, for its owner alone', async () => {
    const { issuer, paths } = temporaryHome()
    const made = invite({ name: 'vm1', roles: ['hub', 'observer'] })

    await issuer.addInvite(made)

    expect(await issuer.findInvite(made.inviteId)).toEqual(made)
    expect(statSync(join(paths.issuer, 'invites', made.inviteId)).mode & 0o777).toBe(0o600)
  })

  test('that cannot be read keeps nobody from making and reading others', async () => {
    const { issuer, paths, root } = temporaryHome()
    await issuer.addInvite(invite())
    const broken = invite()
    writeFileSync(join(paths.issuer, 'invites', broken.inviteId), '{}', { mode: 0o600 })
    // A book that begins anew looks at all invites before it adds one.
    const again = openHome({ home: root, env: {} }).issuer
    const made = invite({ createdAtMs: 2_000 })

    await again.addInvite(made)

    expect((await again.openInvites(3_000)).map(({ inviteId }) => inviteId)).toContain(made.inviteId)
    await expect(again.findInvite(broken.inviteId)).rejects.toMatchObject({ code: 'store_damaged' })
  })

  test('is used once: the same joiner gets its claim again, another is told who used it and when', async () => {
    const { issuer } = temporaryHome()
    const { inviteId } = invite()
    await issuer.addInvite(invite({ inviteId }))

    const claim = await issuer.claim({ inviteId, ...one })
    await issuer.settleClaim(claim, new Uint8Array([7]))

    expect(await issuer.claim({ inviteId, ...one, nowMs: 9_999 })).toEqual({
      ...claim,
      membership: new Uint8Array([7]),
    })
    await expect(issuer.claim({ inviteId, ...two })).rejects.toMatchObject({
      code: 'invite_used',
      details: { used_by: 'SHA256:one', used_at_ms: 2_000 },
    })
  })

  test('that expired unused is refused as expired, and one that is not known as not known', async () => {
    const { issuer } = temporaryHome()
    const { inviteId } = invite()
    await issuer.addInvite(invite({ inviteId }))

    await expect(issuer.claim({ inviteId, ...one, nowMs: 901_001 })).rejects.toMatchObject({ code: 'invite_expired' })
    await expect(issuer.claim({ inviteId: 'f'.repeat(32), ...one })).rejects.toMatchObject({ code: 'invite_invalid' })
    await expect(issuer.claim({ inviteId: '../serial', ...one })).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  test('is open until it is used or expires', async () => {
    const { issuer } = temporaryHome()
    const [used, old, open] = [invite(), invite({ expiresAtMs: 1_500 }), invite()]
    for (const each of [used, old, open]) await issuer.addInvite(each)
    await issuer.claim({ inviteId: used.inviteId, ...one })

    expect((await issuer.openInvites(2_500)).map(({ inviteId }) => inviteId)).toEqual([open.inviteId])
  })

  test('is answered for as used for a day after it expired, and then forgotten with its claim', async () => {
    const { issuer, paths } = temporaryHome()
    const old = invite({ expiresAtMs: 5_000 })
    await issuer.addInvite(old)
    await issuer.claim({ inviteId: old.inviteId, ...one })

    await issuer.addInvite(invite({ createdAtMs: 5_000 + limits.claimsRememberedMs }))
    await expect(issuer.claim({ inviteId: old.inviteId, ...two })).rejects.toMatchObject({ code: 'invite_used' })
    await issuer.addInvite(invite({ createdAtMs: 5_001 + limits.claimsRememberedMs }))

    expect(existsSync(join(paths.issuer, 'invites', old.inviteId))).toBe(false)
    expect(existsSync(join(paths.issuer, 'claims', old.inviteId))).toBe(false)
  })

  test('is not made when the book is full', async () => {
    const { issuer, paths } = temporaryHome()
    await issuer.addInvite(invite())
    const { secret: _, ...rest } = invite({ expiresAtMs: 5_000 })
    for (let count = 1; count < invitesMax; count++) {
      const record = JSON.stringify({ ...rest, secret: { $bytes: '' } })
      writeFileSync(join(paths.issuer, 'invites', `filler-${count}`), record, { mode: 0o600 })
    }

    await expect(issuer.addInvite(invite())).rejects.toMatchObject({ code: 'queue_full' })
  })

  test('that two joiners ask for at once goes to exactly one of them, 200 times', manyWrites, async () => {
    const { root } = temporaryHome()
    const books = [0, 1].map(() => openHome({ home: root, env: {} }).issuer)

    for (let round = 0; round < 200; round++) {
      const { inviteId } = invite()
      await books[0]?.addInvite(invite({ inviteId }))
      const claims = books.map((book, index) => book.claim({ inviteId, ...(index === 0 ? one : two) }))
      const outcomes = await Promise.allSettled(claims)
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    }
  })

  test(
    'that two processes race for goes to exactly one of them, 200 times, and the other is told of it',
    manyWrites,
    async () => {
      const { root, issuer } = temporaryHome()
      const children = ['one', 'two'].map((peerId) => {
        const child = spawn(process.execPath, [racer, root, peerId], { stdio: ['pipe', 'pipe', 'inherit'] })
        onTestFinished(() => {
          child.kill('SIGKILL')
        })
        return { child, lines: linesOf(child) }
      })
      for (const { lines } of children) await lines.next()
      const wins = new Map([['one', 0]])

      for (let round = 0; round < 200; round++) {
        const { inviteId } = invite()
        await issuer.addInvite(invite({ inviteId, createdAtMs: 0 }))
        for (const { child } of children) child.stdin?.write(`${inviteId}\n`)
        const answers = await Promise.all(children.map(async ({ lines }) => (await lines.next()).value as string))
        const winner = answers[0] === 'won' ? 'one' : 'two'

        expect(answers.toSorted()).toEqual([`of ${winner}`, 'won'])
        expect(await issuer.findClaim(inviteId)).toMatchObject({ peerId: winner })
        wins.set(winner, (wins.get(winner) ?? 0) + 1)
      }
      for (const { child } of children) {
        child.stdin?.end()
        await once(child, 'exit')
      }
      expect([...wins.values()].reduce((sum, count) => sum + count)).toBe(200)
    },
  )
})

describe('names and serials', () => {
  test('a name belongs to one machine, unless the owner says that another takes it over', async () => {
    const { issuer } = temporaryHome()

    await issuer.takeName('vm1', 'one')
    await issuer.takeName('vm1', 'one')
    await expect(issuer.takeName('vm1', 'two')).rejects.toMatchObject({ code: 'name_taken' })
    await expect(issuer.takeName('vm1', 'two', { replaces: 'three' })).rejects.toMatchObject({ code: 'name_taken' })
    expect(await issuer.ownerOfName('vm1')).toBe('one')
    await issuer.takeName('vm1', 'two', { replaces: 'one' })

    expect(await issuer.ownerOfName('vm1')).toBe('two')
  })

  test('serials rise without a gap or a repeat, also across processes of one home', async () => {
    const { issuer, root } = temporaryHome()

    const serials = await Promise.all(Array.from({ length: 10 }, () => issuer.nextSerial()))
    serials.push(await openHome({ home: root, env: {} }).issuer.nextSerial())

    expect(serials).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
  })

  test('one process at a time plays the issuer', async () => {
    const { issuer, root } = temporaryHome()
    const lock = await issuer.lock()

    await expect(openHome({ home: root, env: {} }).issuer.lock()).rejects.toMatchObject({ code: 'key_held' })
    expect(await issuer.holder()).toMatchObject({ pid: process.pid })
    await lock.release()

    expect(await issuer.holder()).toBeUndefined()
  })

  test('a damaged record is named and not taken for an absent one', async () => {
    const { issuer, paths } = temporaryHome()
    const { inviteId } = invite()
    await issuer.addInvite(invite({ inviteId }))
    mkdirSync(join(paths.issuer, 'claims'), { mode: 0o700 })
    writeFileSync(join(paths.issuer, 'claims', inviteId), '{"inviteId":"x"', { mode: 0o600 })

    await expect(issuer.claim({ inviteId, ...one })).rejects.toMatchObject({ code: 'store_damaged' })
  })
})

function linesOf(child: ChildProcess): AsyncIterator<string> {
  if (child.stdout === null) throw new Error('the racer has no output')
  return createInterface({ input: child.stdout })[Symbol.asyncIterator]()
}
