import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { NfltrError } from '../../core/errors.ts'
import { limits } from '../../core/limits.ts'
import { encodeRecord } from '../../core/record-json.ts'
import { createFileExclusively, ensurePrivateFolder, syncFolder } from '../../platform/files.ts'
import type { ClaimRecord, Held, HomePaths, InviteRecord, IssuerBook } from '../../ports/home.ts'
import { holderOf, type LockPlace, takeLock } from './holder-lock.ts'
import { knockBook } from './knock-book.ts'
import { folderName } from './paths.ts'
import { namesIn, readRecord, writeRecord } from './record-file.ts'
import { serial } from './serial.ts'

const inviteKind = {
  name: 'an invite',
  shape: {
    inviteId: 'string',
    secret: 'bytes',
    roles: 'list',
    name: 'string?',
    replaces: 'string?',
    createdAtMs: 'number',
    expiresAtMs: 'number',
  },
} as const
const claimKind = {
  name: 'the claim of an invite',
  shape: { inviteId: 'string', peerId: 'string', fingerprint: 'string', claimedAtMs: 'number', membership: 'bytes?' },
} as const
const nameKind = { name: 'the owner of a name', shape: { peerId: 'string' } } as const
const serialKind = { name: 'the newest serial', shape: { serial: 'number' } } as const

/** Invites that one book remembers, used and expired ones of the last 24 hours included (rule 38). */
export const invitesMax = 1000

/**
 * The issuer's book in files (rule 12). What may be raced for — a claim, a name — is a file made exclusively and synced
 * with its folder; what only the holder of the lock may do — serials — is a file replaced as a whole.
 */
export function issuerBook(paths: HomePaths): IssuerBook {
  const folders = {
    invites: join(paths.issuer, 'invites'),
    claims: join(paths.issuer, 'claims'),
    names: join(paths.issuer, 'names'),
  }
  const lock = { folder: paths.issuer, name: 'lock' }
  const serialFile = join(paths.issuer, 'serial')
  const inTurn = serial()
  const revokingInTurn = serial()
  let nextForgettingAtMs = 0

  const findInvite = (inviteId: string): Promise<InviteRecord | undefined> =>
    readRecord<InviteRecord>(join(folders.invites, folderName(inviteId)), inviteKind)
  const findClaim = (inviteId: string): Promise<ClaimRecord | undefined> =>
    readRecord<ClaimRecord>(join(folders.claims, folderName(inviteId)), claimKind)
  const ownerOfName = async (name: string): Promise<string | undefined> =>
    (await readRecord<{ peerId: string }>(join(folders.names, folderName(name)), nameKind))?.peerId

  return {
    lock: () => takeLock(lock, 'The issuer role of this home'),
    holder: () => holderOf(lock),
    addInvite: async (invite) => {
      await ensurePrivateFolder(folders.invites)
      if (invite.createdAtMs >= nextForgettingAtMs) nextForgettingAtMs = await forgetOld(folders, invite.createdAtMs)
      if ((await namesIn(folders.invites)).length >= invitesMax) {
        throw new NfltrError('queue_full', `${invitesMax} invites of the last day are remembered; no more were made.`, {
          hint: 'Wait until the oldest are forgotten, 24 hours after they expired.',
        })
      }
      await createFileExclusively(join(folders.invites, folderName(invite.inviteId)), encodeRecord(invite))
    },
    findInvite,
    openInvites: async (nowMs) => {
      const open: InviteRecord[] = []
      for (const inviteId of await namesIn(folders.invites)) {
        const invite = await readableInvite(join(folders.invites, inviteId))
        if (invite === undefined || invite.expiresAtMs < nowMs || (await findClaim(inviteId)) !== undefined) continue
        open.push(invite)
      }
      return open
    },
    claim: async (request) => {
      const found = await findClaim(request.inviteId)
      if (found !== undefined) return sameJoiner(found, request.peerId)
      const invite = await findInvite(request.inviteId)
      if (invite === undefined) throw unknownInvite()
      if (invite.expiresAtMs < request.nowMs) throw expired(invite)
      return await claimFirst(folders.claims, request)
    },
    findClaim,
    settleClaim: (claim, membership) =>
      writeRecord(join(folders.claims, folderName(claim.inviteId)), { ...claim, membership }),
    takeName: async (name, peerId, options = {}) => {
      await ensurePrivateFolder(folders.names)
      const path = join(folders.names, folderName(name))
      if (await createOnce(path, { peerId })) return
      const owner = await ownerOfName(name)
      if (owner === peerId) return
      if (owner === undefined || owner !== options.replaces) throw nameTaken(name)
      await writeRecord(path, { peerId })
    },
    ownerOfName,
    nextSerial: (above = 0) =>
      inTurn(async () => {
        await ensurePrivateFolder(paths.issuer)
        const held = await takeLockInTime({ folder: paths.issuer, name: 'serial-lock' }, 'The serials of this home')
        try {
          const last = (await readRecord<{ serial: number }>(serialFile, serialKind))?.serial ?? 0
          const next = Math.max(last, above) + 1
          await writeRecord(serialFile, { serial: next })
          return next
        } finally {
          await held.release()
        }
      }),
    ...knockBook(paths),
    whileRevoking: (change) =>
      revokingInTurn(async () => {
        const place = { folder: paths.issuer, name: 'revoking' }
        const held = await takeLockInTime(place, 'The list of revoked members of this home')
        try {
          return await change()
        } finally {
          await held.release()
        }
      }),
  }
}

/** How long a lock is waited for that its holder needs only for a moment, in milliseconds, and how often it is tried. */
const briefLockWait = { atMostMs: 5_000, everyMs: 25 } as const

/** @throws {NfltrError} `key_held` where its holder does not let go in time */
async function takeLockInTime(place: LockPlace, what: string): Promise<Held> {
  for (let waitedMs = 0; ; waitedMs += briefLockWait.everyMs) {
    try {
      return await takeLock(place, what)
    } catch (error) {
      if (!(error instanceof NfltrError && error.code === 'key_held')) throw error
      if (waitedMs >= briefLockWait.atMostMs) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, briefLockWait.everyMs))
  }
}

async function claimFirst(
  folder: string,
  request: { inviteId: string; peerId: string; fingerprint: string; nowMs: number },
): Promise<ClaimRecord> {
  const { inviteId, peerId, fingerprint, nowMs } = request
  const claim: ClaimRecord = { inviteId, peerId, fingerprint, claimedAtMs: nowMs }
  const path = join(folder, folderName(inviteId))
  await ensurePrivateFolder(folder)
  if (await createOnce(path, claim)) return claim
  const winner = await readRecord<ClaimRecord>(path, claimKind)
  if (winner === undefined) throw unknownInvite()
  const settled = sameJoiner(winner, peerId)
  // The winner may be this joiner's other connection, whose sync of the folder is not ours to count on.
  await syncFolder(folder)
  return settled
}

async function createOnce(path: string, value: object): Promise<boolean> {
  try {
    await createFileExclusively(path, encodeRecord(value))
    return true
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'already_exists') return false
    throw error
  }
}

/**
 * Used and expired invites stay known for a day, so that whoever comes late is told which it was.
 *
 * @returns when the next one is to be forgotten, milliseconds since 1970; new ones are not before a day from now
 */
async function forgetOld(folders: { invites: string; claims: string }, nowMs: number): Promise<number> {
  let nextAtMs = nowMs + limits.claimsRememberedMs
  for (const inviteId of await namesIn(folders.invites)) {
    const invite = await readableInvite(join(folders.invites, inviteId))
    if (invite === undefined) continue
    const forgottenAtMs = invite.expiresAtMs + limits.claimsRememberedMs
    if (forgottenAtMs >= nowMs) {
      nextAtMs = Math.min(nextAtMs, forgottenAtMs)
      continue
    }
    // The invite first: a claim without its invite is still answered, an invite without its claim would be open again.
    await rm(join(folders.invites, inviteId), { force: true })
    await rm(join(folders.claims, inviteId), { force: true })
  }
  return nextAtMs
}

/** One that is damaged stays where it is, and keeps nobody from making others: whoever comes with it is told. */
async function readableInvite(path: string): Promise<InviteRecord | undefined> {
  try {
    return await readRecord<InviteRecord>(path, inviteKind)
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'store_damaged') return undefined
    throw error
  }
}

function sameJoiner(claim: ClaimRecord, peerId: string): ClaimRecord {
  if (claim.peerId === peerId) return claim
  const at = new Date(claim.claimedAtMs).toISOString()
  throw new NfltrError('invite_used', `The invite was used by ${claim.fingerprint} at ${at}.`, {
    hint: 'If that was not you, revoke that member; ask for a new invite.',
    details: { used_by: claim.fingerprint, used_at_ms: claim.claimedAtMs },
  })
}

function expired(invite: InviteRecord): NfltrError {
  const at = new Date(invite.expiresAtMs).toISOString()
  return new NfltrError('invite_expired', `The invite expired at ${at}.`, {
    hint: 'Ask for a new invite.',
    details: { expired_at_ms: invite.expiresAtMs },
  })
}

function unknownInvite(): NfltrError {
  return new NfltrError(
    'invite_invalid',
    'The invite is not known to its issuer, or was forgotten a day after it expired.',
    {
      hint: 'Ask for a new invite.',
      details: { problem: 'unknown' },
    },
  )
}

function nameTaken(name: string): NfltrError {
  return new NfltrError('name_taken', `The name ${name} belongs to another machine.`, {
    hint: 'Choose another name, or make the invite with --replace.',
    details: { name },
  })
}
