import { hostname } from 'node:os'
import { hubRoutes } from '../../control/server.ts'
import { limits } from '../../core/limits.ts'
import { openHub } from '../../hub/hub.ts'
import { sha256 } from '../../identity/hash.ts'
import { systemClock } from '../../platform/clock.ts'
import { giveBackAfterStart } from '../../platform/heap.ts'
import { systemLiveness } from '../../platform/liveness.ts'
import { systemRandom } from '../../platform/random.ts'
import type { HubStatusDocument } from '../../ports/hub-api.ts'
import { Engine } from '../../runtime/engine.ts'
import { writeBackup } from '../../store/backup.ts'
import { openHome } from '../../store/home/home.ts'
import { openLevelStore } from '../../store/level-store.ts'
import type { HubServeOptions } from '../commands/hub.ts'
import type { Context } from '../compose.ts'
import { publishControl } from './control-files.ts'
import { keepIssuer } from './issuer.ts'
import { processLifetime } from './lifetime.ts'
import { openMeshProcess, requireRole } from './mesh-process.ts'
import { projectOf } from './project.ts'
import { refusedHellos } from './refused-hellos.ts'
import { guardRestarts } from './restart-guard.ts'
import { backupDocument, repairCommandOf } from './store-world.ts'
import { Teardown } from './teardown.ts'

/**
 * Runs a project's hub in this process until it is stopped, or idle where that ends it. What it holds is taken in order (key,
 * store, mesh, control socket) and let go in the opposite one.
 *
 * @throws {NfltrError} `no_mesh`, `wrong_role`, `store_held` with the holder's pid, `stale_epoch` when another process of this
 *   hub took over, and what the store says of itself
 */
export async function serveHub(
  context: Context,
  options: HubServeOptions & { readonly home?: string },
  ready: (status: HubStatusDocument) => void,
): Promise<void> {
  const { env } = context
  const home = openHome({ ...options, env })
  const project = projectOf({ ...options, env })
  const lifetime = processLifetime()
  const teardown = new Teardown()
  let guard: ReturnType<typeof guardRestarts> | undefined
  try {
    const store = await openLevelStore(home.paths.hub(project.hubId), {
      repairCommand: repairCommandOf(project.hubId),
    })
    teardown.add(() => store.close())
    // A hub that its adapter starts says that it may end when idle; any other start is a person's.
    const isAskedFor = options.exitWhenIdle !== true
    const dir = home.paths.hub(project.hubId)
    guard = guardRestarts(dir, { isAskedFor, command: `nfltr hub serve --hub-id ${project.hubId}`, teardown })
    const meshProcess = await openMeshProcess(context, {
      home,
      kind: 'hub',
      hubId: project.hubId,
      ...(options.listen === undefined ? {} : { listen: options.listen }),
      ...(options.peer === undefined ? {} : { peers: options.peer }),
    })
    teardown.add(() => meshProcess.close())
    requireRole(meshProcess.machine, 'hub')
    const clock = systemClock()
    const hub = await openHub({
      engine: new Engine(store),
      store,
      peers: meshProcess.mesh,
      clock,
      liveness: systemLiveness(),
      random: systemRandom(),
      backup: async (file) => {
        const of = { hubId: project.hubId, version: context.version }
        return backupDocument(file, await writeBackup(store, file, of))
      },
      facts: {
        hubId: project.hubId,
        project: project.folder,
        pid: process.pid,
        host: hostname(),
        sha256: (text) => Buffer.from(sha256(new TextEncoder().encode(text))).toString('hex'),
      },
    })
    teardown.add(() => hub.close())
    const issuer = await keepIssuer(context, { home })
    teardown.add(() => issuer.close())
    const routes = hubRoutes(hub, () => ({
      refused_hellos: refusedHellos(meshProcess.mesh.refusalNotices(), 'this_hub'),
    }))
    const control = await publishControl(home.paths, { kind: 'hub', hubId: project.hubId }, routes)
    teardown.add(() => control.close())
    ready(await hub.status())
    guard.ready()
    giveBackAfterStart()
    await Promise.race([
      hub.run(),
      lifetime.ending,
      ...(options.exitWhenIdle === true ? [hub.idleFor(limits.hubIdleExitMs)] : []),
    ])
  } catch (error) {
    guard?.failed(error)
    throw error
  } finally {
    await teardown.run()
  }
  // Sockets of libp2p may linger; everything durable is on disk and nothing is owed to anyone.
  process.exit()
}
