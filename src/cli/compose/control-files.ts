import { createHash, randomBytes } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { ControlEndpoint } from '../../control/client.ts'
import { type ControlServer, type Route, serveControl } from '../../control/server.ts'
import { NfltrError } from '../../core/errors.ts'
import { checkPrivateFolder, ensurePrivateFolder, writeFileAtomically } from '../../platform/files.ts'
import { shortRunDir, socketPathIn } from '../../platform/short-run-dir.ts'
import type { HomePaths } from '../../ports/home.ts'

/**
 * Where a process of this home is reached: a small record in the run folder, replaced whole by each process that takes the
 * place. Sockets have names of their own, so that a process that ends late never removes its successor's.
 */
export type ControlPlace = { readonly kind: 'node' } | { readonly kind: 'hub'; readonly hubId: string }

/** Serves routes under a place until closed. The caller holds whatever makes it the only one (a store's lock). */
export async function publishControl(
  paths: HomePaths,
  place: ControlPlace,
  routes: readonly Route[],
): Promise<ControlServer> {
  await ensurePrivateFolder(paths.run)
  const token = randomBytes(24).toString('base64url')
  const socketPath = await socketPathIn(
    await shortRunDir(paths.run),
    `${place.kind.charAt(0)}-${randomBytes(6).toString('hex')}.sock`,
  )
  const earlier = await readRecord(paths, place)
  if (earlier !== undefined) await rm(earlier.socketPath, { force: true })
  const server = await serveControl({ socketPath, token, routes })
  await writeFileAtomically(recordFile(paths, place), `${JSON.stringify({ socket: socketPath, token })}\n`)
  return {
    close: async () => {
      await server.close()
      await rm(socketPath, { force: true })
      const current = await readRecord(paths, place)
      if (current?.socketPath === socketPath) await rm(recordFile(paths, place), { force: true })
    },
  }
}

/**
 * How to reach the process at a place.
 *
 * @throws {NfltrError} `not_running` where none has been; `insecure_permissions` where the run folder is not ours alone
 */
export async function findControl(paths: HomePaths, place: ControlPlace): Promise<ControlEndpoint> {
  const record = await readRecord(paths, place)
  if (record === undefined) {
    const what = place.kind === 'hub' ? `The hub ${place.hubId}` : 'The node of this home'
    throw new NfltrError('not_running', `${what} was not running.`, {
      hint:
        place.kind === 'hub'
          ? 'It is started by the first tool call, or by: nfltr hub serve'
          : 'Start it with: nfltr node join',
    })
  }
  await checkPrivateFolder(join(record.socketPath, '..'))
  return record
}

function recordFile(paths: HomePaths, place: ControlPlace): string {
  const name =
    place.kind === 'node' ? 'node' : `hub-${createHash('sha256').update(place.hubId).digest('hex').slice(0, 16)}`
  return join(paths.run, `${name}.control.json`)
}

async function readRecord(paths: HomePaths, place: ControlPlace): Promise<ControlEndpoint | undefined> {
  const text = await readFile(recordFile(paths, place), 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  const record = JSON.parse(text) as { socket?: unknown; token?: unknown }
  if (typeof record.socket !== 'string' || typeof record.token !== 'string') return undefined
  return { socketPath: record.socket, token: record.token }
}
