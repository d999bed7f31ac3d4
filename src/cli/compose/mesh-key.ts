import { readFile } from 'node:fs/promises'
import { NfltrError } from '../../core/errors.ts'
import { exportMeshKey, importMeshKey } from '../../identity/recovery.ts'
import { badPathOr, createFileExclusively } from '../../platform/files.ts'
import type { Home } from '../../ports/home.ts'
import type { Context } from '../compose.ts'
import { readSecretFile } from '../secret-file.ts'
import { machineNameOfHost } from './join-mesh.ts'

type Document = Readonly<Record<string, unknown>>

export interface KeyFileChoice {
  readonly file: string
  /** Where the passphrase is: a file that only its owner reads, or `-` for standard input. Else it is asked for. */
  readonly passphraseFile?: string
  readonly name?: string
}

/** `nfltr mesh key export`. @throws {NfltrError} `not_owner`, `already_exists` for the file, `invalid_argument` */
export async function exportKey(context: Context, home: Home, choice: KeyFileChoice): Promise<Document> {
  const passphrase = await passphraseOf(context, choice, { isNew: true })
  const { meshId, text } = await exportMeshKey(home, passphrase)
  await createFileExclusively(choice.file, text).catch((error: unknown) => {
    throw badPathOr(error, { path: choice.file, argument: 'file', deed: 'written' })
  })
  return { mesh_id: meshId, file: choice.file }
}

/** `nfltr mesh key import`. @throws {NfltrError} as `importMeshKey` */
export async function importKey(context: Context, home: Home, choice: KeyFileChoice): Promise<Document> {
  const text = await readFile(choice.file, 'utf8').catch((cause: unknown) => {
    throw badPathOr(cause, { path: choice.file, argument: 'file', deed: 'read' })
  })
  const passphrase = await passphraseOf(context, choice, { isNew: false })
  const owner = await importMeshKey(home, {
    text,
    passphrase,
    name: choice.name ?? machineNameOfHost(),
    nowMs: Date.now(),
  })
  return {
    mesh_id: owner.meshId,
    mesh_fingerprint: owner.meshFingerprint,
    machine: owner.machine,
    peer_id: owner.peerId,
    fingerprint: owner.fingerprint,
    roles: owner.roles,
  }
}

/** Never an argument: a file, standard input, or the prompt. */
async function passphraseOf(
  { io }: Context,
  choice: KeyFileChoice,
  { isNew }: { readonly isNew: boolean },
): Promise<string> {
  const { passphraseFile } = choice
  if (passphraseFile === '-') return withoutLineEnd(await io.readInput())
  if (passphraseFile !== undefined) return withoutLineEnd(await readSecretFile(passphraseFile, '--passphrase-file'))
  if (!io.isInteractive) {
    throw new NfltrError('invalid_argument', 'No passphrase was given, and nobody is there to ask.', {
      hint: 'Give it with --passphrase-file FILE, or - for standard input.',
      details: { argument: '--passphrase-file' },
    })
  }
  const passphrase = await io.ask('Passphrase: ', { isSecret: true })
  if (isNew && (await io.ask('The same again: ', { isSecret: true })) !== passphrase) {
    throw new NfltrError('invalid_argument', 'The two passphrases differ.', { details: { argument: 'passphrase' } })
  }
  return passphrase
}

function withoutLineEnd(text: string): string {
  return text.replace(/\r?\n$/, '')
}
