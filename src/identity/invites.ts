import { createHmac, timingSafeEqual } from 'node:crypto'
import { NfltrError } from '../core/errors.ts'
import { decodeInvitePayload, encodeInvitePayload } from '../wire/record-codec.ts'
import { sha256 } from './hash.ts'
import { peerIdOfRaw, publicKeyOf } from './keys.ts'

/** What an invite gives to a joiner: whom to trust, where to go, and a secret that is proven and never sent. */
export interface Invite {
  /** PeerId of the mesh key. */
  readonly meshId: string
  /** PeerId of the issuer's transport key. */
  readonly issuerPeerId: string
  readonly addresses: readonly string[]
  readonly relays: readonly string[]
  /** 16 random bytes as hex. */
  readonly inviteId: string
  /** 16 random bytes. */
  readonly secret: Uint8Array
  readonly expiresAtMs: number
}

const prefix = 'nfltr1.'
const checkLength = 8

/** One line of text: `nfltr1.`, the payload in base64url, a point, and eight characters that check it. */
export function encodeInvite(invite: Invite): string {
  const payload = encodeInvitePayload({
    meshKey: publicKeyOf(invite.meshId).raw,
    issuerKey: publicKeyOf(invite.issuerPeerId).raw,
    addresses: invite.addresses,
    relays: invite.relays,
    inviteId: Buffer.from(invite.inviteId, 'hex'),
    secret: invite.secret,
    expiresAtMs: invite.expiresAtMs,
  })
  return `${prefix}${Buffer.from(payload).toString('base64url')}.${checkOf(payload)}`
}

/**
 * Reads an invite as it was pasted: white space, which terminals and mail put into long lines, is ignored.
 *
 * @throws {NfltrError} `invite_invalid`; `details.problem` is `not_an_invite`, `newer_version`, `cut` or `altered`
 */
export function decodeInvite(text: string): Invite {
  const line = text.replace(/\s+/g, '')
  if (!line.startsWith(prefix)) throw notOurs(line)
  const [body = '', check = '', ...rest] = line.slice(prefix.length).split('.')
  if (rest.length === 0 && check.length < checkLength) {
    throw problem(
      'cut',
      'The invite was cut off: its end is missing.',
      'Copy the whole line again, or use --invite-file.',
    )
  }
  const payload = new Uint8Array(Buffer.from(body, 'base64url'))
  const isPlain = /^[\w-]+$/.test(body) && Buffer.from(payload).toString('base64url') === body
  if (rest.length > 0 || !isPlain || checkOf(payload) !== check) {
    throw problem('altered', 'The invite was altered on the way: its check does not fit.', 'Copy the line again.')
  }
  return parse(payload)
}

export type Side = 'issuer' | 'joiner'

export interface ProofInput {
  readonly secret: Uint8Array
  /** Whose proof it is: a proof that is sent back is not the other side's. */
  readonly side: Side
  readonly meshId: string
  readonly inviteId: string
  readonly issuerPeerId: string
  readonly joinerPeerId: string
  readonly issuerNonce: Uint8Array
  readonly joinerNonce: Uint8Array
}

/** HMAC-SHA-256 over everything that names this very exchange (rule 13): 32 bytes. Each part is preceded by its length. */
export function inviteProof(input: ProofInput): Uint8Array {
  const mac = createHmac('sha256', input.secret)
  const { side, meshId, inviteId, issuerPeerId, joinerPeerId, issuerNonce, joinerNonce } = input
  for (const part of ['nfltr/join/1', side, meshId, inviteId, issuerPeerId, joinerPeerId, issuerNonce, joinerNonce]) {
    const bytes = typeof part === 'string' ? Buffer.from(part) : part
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.length)
    mac.update(length).update(bytes)
  }
  return new Uint8Array(mac.digest())
}

/** Compares two proofs in a time that does not depend on where they differ. */
export function proofsEqual(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && timingSafeEqual(one, other)
}

function parse(payload: Uint8Array): Invite {
  try {
    const { meshKey, issuerKey, inviteId, ...rest } = decodeInvitePayload(payload)
    const ids = { meshId: peerIdOfRaw(meshKey), issuerPeerId: peerIdOfRaw(issuerKey) }
    return { ...ids, ...rest, inviteId: Buffer.from(inviteId).toString('hex') }
  } catch (cause) {
    throw problem('altered', 'The invite did not hold what an invite holds.', 'Ask for a new invite.', cause)
  }
}

function checkOf(payload: Uint8Array): string {
  const hash = sha256(Buffer.from('nfltr/invite-check/1'), payload)
  return Buffer.from(hash).toString('base64url').slice(0, checkLength)
}

function notOurs(line: string): NfltrError {
  if (/^nfltr\d+\./.test(line)) {
    return problem('newer_version', 'The invite was made by a newer version of nfltr.', 'Update nfltr on this machine.')
  }
  return problem(
    'not_an_invite',
    `The text was not an invite: it did not begin with ${prefix}`,
    'Copy the whole line that `nfltr mesh invite` printed.',
  )
}

type Problem = 'not_an_invite' | 'newer_version' | 'cut' | 'altered'

function problem(what: Problem, message: string, hint: string, cause?: unknown): NfltrError {
  return new NfltrError('invite_invalid', message, { hint, cause, details: { problem: what } })
}
