import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto'
import { NfltrError } from '../core/errors.ts'

/** Cost of the key derivation: 64 MiB and a good part of a second for each guess. */
const cost = { n: 2 ** 16, r: 8, p: 1 } as const

/** The most that a file may ask of this machine: four times that, so that a made-up one does not use up its memory. */
const costMax = { n: 2 ** 18, r: 8, p: 4 } as const

/** Characters of a passphrase: fewer are guessed whatever a guess costs. */
export const passphraseMin = 12

interface RecoveryFile {
  readonly nfltr: 'mesh-key'
  readonly schema: 1
  readonly mesh_id: string
  readonly kdf: {
    readonly name: 'scrypt'
    readonly n: number
    readonly r: number
    readonly p: number
    readonly salt: string
  }
  readonly cipher: { readonly name: 'aes-256-gcm'; readonly nonce: string; readonly tag: string }
  readonly payload: string
}

/**
 * Encrypts what is needed to go on as the owner of a mesh: scrypt over the passphrase, AES-256-GCM, with everything that is
 * readable in the file covered by the tag.
 *
 * @throws {NfltrError} `invalid_argument` for a passphrase that is too short
 */
export async function sealRecovery(payload: Uint8Array, of: { meshId: string; passphrase: string }): Promise<string> {
  if (of.passphrase.length < passphraseMin) throw tooShort()
  const kdf = { name: 'scrypt', ...cost, salt: randomBytes(16).toString('base64') } as const
  const head = { nfltr: 'mesh-key', schema: 1, mesh_id: of.meshId, kdf } as const
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', await derive(of.passphrase, kdf), nonce)
  cipher.setAAD(Buffer.from(JSON.stringify(head)))
  const sealed = Buffer.concat([cipher.update(payload), cipher.final()])
  const file: RecoveryFile = {
    ...head,
    cipher: { name: 'aes-256-gcm', nonce: nonce.toString('base64'), tag: cipher.getAuthTag().toString('base64') },
    payload: sealed.toString('base64'),
  }
  return `${JSON.stringify(file)}\n`
}

/** @throws {NfltrError} `invalid_argument` for what is no recovery file, a wrong passphrase or a file that was altered */
export async function openRecovery(
  text: string,
  passphrase: string,
): Promise<{ readonly meshId: string; readonly payload: Uint8Array }> {
  const { cipher: sealed, payload, ...head } = parse(text)
  const { nfltr, schema, mesh_id, kdf } = head
  const decipher = createDecipheriv('aes-256-gcm', await derive(passphrase, kdf), Buffer.from(sealed.nonce, 'base64'), {
    authTagLength: 16,
  })
  const { name, n, r, p, salt } = kdf
  decipher.setAAD(Buffer.from(JSON.stringify({ nfltr, schema, mesh_id, kdf: { name, n, r, p, salt } })))
  try {
    decipher.setAuthTag(Buffer.from(sealed.tag, 'base64'))
    const opened = Buffer.concat([decipher.update(Buffer.from(payload, 'base64')), decipher.final()])
    return { meshId: mesh_id, payload: new Uint8Array(opened) }
  } catch (cause) {
    throw new NfltrError('invalid_argument', 'The passphrase was wrong, or the file was altered.', {
      cause,
      hint: 'Try the passphrase again, or another copy of the file.',
      details: { argument: 'passphrase' },
    })
  }
}

function parse(text: string): RecoveryFile {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw noRecovery(cause)
  }
  const file = value as Partial<RecoveryFile> | null
  const { kdf, cipher } = file ?? {}
  const isWhole =
    file?.nfltr === 'mesh-key' &&
    file.schema === 1 &&
    typeof file.mesh_id === 'string' &&
    typeof file.payload === 'string' &&
    kdf?.name === 'scrypt' &&
    typeof kdf.salt === 'string' &&
    cipher?.name === 'aes-256-gcm' &&
    typeof cipher.nonce === 'string' &&
    typeof cipher.tag === 'string'
  if (!isWhole) throw noRecovery()
  const isAffordable = [
    [kdf.n, costMax.n],
    [kdf.r, costMax.r],
    [kdf.p, costMax.p],
  ].every(([asked, most]) => Number.isSafeInteger(asked) && Number(asked) > 0 && Number(asked) <= Number(most))
  if (!isAffordable || (kdf.n & (kdf.n - 1)) !== 0) throw noRecovery()
  return file as RecoveryFile
}

function derive(passphrase: string, kdf: RecoveryFile['kdf']): Promise<Buffer> {
  const { n, r, p, salt } = kdf
  return new Promise((resolve, reject) => {
    const options = { N: n, r, p, maxmem: 256 * n * r }
    scrypt(passphrase.normalize('NFKC'), Buffer.from(salt, 'base64'), 32, options, (error, key) =>
      error === null ? resolve(key) : reject(error),
    )
  })
}

function noRecovery(cause?: unknown): NfltrError {
  return new NfltrError('invalid_argument', 'The file is no recovery file of a mesh key.', {
    cause,
    details: { argument: 'file' },
  })
}

function tooShort(): NfltrError {
  return new NfltrError('invalid_argument', `The passphrase has fewer than ${passphraseMin} characters.`, {
    hint: 'Take several words: whoever has the file and the passphrase owns the mesh.',
    details: { argument: 'passphrase' },
  })
}
