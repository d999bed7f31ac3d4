import { type FSWatcher, watch } from 'node:fs'
import { NfltrError } from '../../core/errors.ts'
import { findIssuerKey, loadIssuerKey } from '../../identity/issuer-key.ts'
import { ensurePrivateFolder } from '../../platform/files.ts'
import type { Home } from '../../ports/home.ts'
import type { Context } from '../compose.ts'
import { type MeshProcess, openMeshProcess } from './mesh-process.ts'

/** The issuer's role, played by this process: a host of its own under the issuer's key, which answers joiners. */
export interface Issuer {
  readonly process: MeshProcess
  close(): Promise<void>
}

/**
 * Takes the issuer's role of an owner's home (rule 12).
 *
 * @throws {NfltrError} `not_owner` where this home may not issue, `key_held` while another process plays it
 */
export async function playIssuer(
  context: Context,
  options: { readonly home: Home; readonly listen?: readonly string[] },
): Promise<Issuer> {
  const { home } = options
  const role = { book: home.issuer, signer: await loadIssuerKey(home) }
  const lock = await home.issuer.lock()
  try {
    const process = await openMeshProcess(context, { ...options, kind: 'issuer', issuer: role })
    // Another process of this home may put another key in the place of the one that signs.
    const unwatch = home.mesh.watch(() => {
      findIssuerKey(home).then(
        (found) => {
          if (found !== undefined) role.signer = found
        },
        // A home that cannot be read is told by whoever needs it.
        () => undefined,
      )
    })
    return {
      process,
      close: async () => {
        unwatch()
        await process.close()
        await lock.release()
      },
    }
  } catch (thrown) {
    await lock.release()
    throw thrown
  }
}

/**
 * Plays the issuer beside a hub or node of an owner's home for as long as nobody else does, and takes the role over when
 * it is laid down. On a machine that owns nothing this waits until it does.
 */
export async function keepIssuer(
  context: Context,
  options: { readonly home: Home },
): Promise<{ close(): Promise<void> }> {
  const { home } = options
  let issuer: Issuer | undefined
  let isClosed = false
  let watcher: FSWatcher | undefined
  let attempt = Promise.resolve()
  const tryToPlay = (): void => {
    attempt = attempt.then(async () => {
      if (issuer !== undefined || isClosed || (await findIssuerKey(home)) === undefined) return
      // Only an owner has a book; its folder shows when the role is laid down.
      await ensurePrivateFolder(home.paths.issuer)
      watcher ??= watch(home.paths.issuer, { persistent: false }, tryToPlay).on('error', () => undefined)
      try {
        issuer = await playIssuer(context, { home })
      } catch (thrown) {
        // Held by another process: its release shows in the folder. Anything else is no reason to end a hub or node.
        if (!(thrown instanceof NfltrError)) throw thrown
      }
    })
  }
  // A machine may become an owner while this runs.
  const unwatch = home.mesh.watch(tryToPlay)
  tryToPlay()
  await attempt
  return {
    close: async () => {
      isClosed = true
      unwatch()
      watcher?.close()
      await attempt
      await issuer?.close()
    },
  }
}
