import { join } from 'node:path'
import { NfltrError } from '../../core/errors.ts'
import { meshKeysHere } from '../../identity/mesh-keys.ts'
import { createKeepers } from '../../keeper/client.ts'
import { systemClock } from '../../platform/clock.ts'
import { processesRunning } from '../../platform/processes-of-folder.ts'
import type { Home } from '../../ports/home.ts'
import { openHome } from '../../store/home/home.ts'
import type { Uninstalled, UninstallOptions } from '../commands/uninstall.ts'
import type { Context } from '../compose.ts'
import { homeParts, installedParts, type Parts, partsThere, removeParts } from './owned-files.ts'

/**
 * `nfltr uninstall`: removes what `scripts/install.sh` brought, and with `--purge` what this home keeps. Nothing is removed before
 * it is certain that everything may be; what is not ours stays, wherever it lies.
 *
 * @throws {NfltrError} `in_use` while something of it runs, or where a member would be purged
 */
export async function uninstall(context: Context, options: UninstallOptions): Promise<Uninstalled> {
  const { env } = context
  const home = openHome({ ...options, env })
  const installed = await installedParts(env)
  const running = new Map(processesRunning(installed.roots).map(({ pid }) => [pid, 'runs from what is installed']))
  const isPurge = options.purge === true
  if (isPurge) {
    await refuseMember(home, options.force === true)
    for (const { pid, kind } of await home.running.list()) running.set(pid, `is the ${kind} of this home`)
  }
  const agents = isPurge ? await liveAgents(home) : []
  if (running.size > 0 || agents.length > 0) throw inUse(running, agents)
  const kept = await homeParts(home.paths)
  const parts: readonly Parts[] = isPurge ? [kept, installed] : [installed]
  const removed = await removeParts(parts)
  return { removed, kept: [...(isPurge ? [] : await partsThere(kept)), ...(await foreign(parts))] }
}

/** Purged, it would be a member that nobody can reach; and an owner's key is in no second place. */
async function refuseMember(home: Home, isForced: boolean): Promise<void> {
  if (isForced) return
  const isOwner = (await meshKeysHere(home)).length > 0
  const own = await home.mesh.loadMembership()
  if (isOwner) {
    throw new NfltrError('in_use', 'The key of a mesh is in this home, and would be lost.', {
      hint: 'Keep it first: nfltr mesh key export FILE. Then: nfltr uninstall --purge --force',
    })
  }
  if (own === undefined) return
  throw new NfltrError('in_use', 'This machine is a member of a mesh, whose hubs would go on looking for it.', {
    hint: 'Leave first: nfltr node leave. Or purge it all the same: nfltr uninstall --purge --force',
    details: { mesh_id: own.meshId },
  })
}

/** Agents outlive their node: their folders are theirs until they end. */
async function liveAgents(home: Home): Promise<readonly string[]> {
  const clock = systemClock()
  const keepers = createKeepers({ attemptsDir: join(home.paths.node, 'attempts'), runDir: home.paths.run, clock })
  return (await keepers.find()).filter(({ state }) => state === 'live').map(({ attemptId }) => attemptId)
}

function inUse(running: ReadonlyMap<number, string>, attempts: readonly string[]): NfltrError {
  const processes = [...running].map(([pid, what]) => `process ${pid} ${what}`)
  const all = [...processes, ...attempts.map((attemptId) => `the agent of ${attemptId} runs`)]
  return new NfltrError('in_use', `Nothing was removed: ${all.join(', ')}.`, {
    hint: 'End them first: nfltr hub stop, Ctrl-C on nfltr node join, and the Claude Code sessions that use nfltr.',
    details: { pids: [...running.keys()], attempts },
  })
}

async function foreign(parts: readonly Parts[]): Promise<readonly string[]> {
  const left: string[] = []
  for (const { beside } of parts) left.push(...(await beside()))
  return left
}
