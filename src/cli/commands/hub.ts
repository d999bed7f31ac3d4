import type { Command } from 'commander'
import type { HubApi, HubStatusDocument } from '../../ports/hub-api.ts'
import type { StoreCondition } from '../../ports/store.ts'
import { hubLeaf } from '../command.ts'
import type { CliIo } from '../io.ts'
import { collectText } from '../values.ts'
import { refusedLine } from './refused-hello.ts'

export interface HubWorld {
  readonly io: CliIo
  /** A client of a hub that runs already. @throws {NfltrError} `not_running` */
  find(options: { readonly hubId?: string }): Promise<HubApi>
  /** Runs a hub in this process until it is ended. `ready` is called once it answers. */
  serve(options: HubServeOptions, ready: (status: HubStatusDocument) => void): Promise<void>
  /** Waits a bounded time for a process that was asked to end. @returns whether it is gone */
  untilGone(pid: number): Promise<boolean>
}

export interface HubServeOptions {
  readonly hubId?: string
  readonly peer?: readonly string[]
  readonly listen?: readonly string[]
  /** Set by whoever starts a hub for one session: it ends by itself once idle. */
  readonly exitWhenIdle?: boolean
}

/** `nfltr hub status` */
export function hubStatus(world: HubWorld): Command {
  return hubLeaf('status', "what this project's hub knows").action(async (_options: unknown, command: Command) => {
    const status = await (await world.find(command.optsWithGlobals())).status()
    const agents = Object.entries(status.agents).map(([state, count]) => `${count} ${state}`)
    world.io.answer(
      status,
      [
        `hub ${status.hub_id} of ${status.project} (pid ${status.pid}): ${status.state}`,
        `agents: ${agents.join(', ') || 'none'}; undelivered: ${status.undelivered}`,
        ...storeLines(status.store),
        ...(status.refused_hellos ?? []).map(refusedLine),
      ].join('\n'),
    )
  })
}

/** Says something only where there is something to say. */
export function storeLines({ state, damage }: StoreCondition): readonly string[] {
  return state === 'damaged' ? ['store: damaged', ...damage.map(({ found }) => `  ${found}`)] : []
}

/** `nfltr hub serve` — keeps the hub up without a session. */
export function hubServe(world: HubWorld): Command {
  return hubLeaf('serve', 'keep this project’s hub up without a session')
    .option('--peer <multiaddr>', 'a member to dial; may be repeated', collectText)
    .option('--listen <multiaddr>', 'an address to listen on; may be repeated', collectText)
    .option('--exit-when-idle', 'end ten minutes after the last agent ended and no session is there')
    .action(async (_options: unknown, command: Command) => {
      await world.serve(command.optsWithGlobals(), (status) =>
        world.io.event(
          { event: 'ready', ...status },
          `Hub ${status.hub_id} of ${status.project} is up (pid ${status.pid}).`,
        ),
      )
    })
}

/** `nfltr hub stop` — ends the hub; agents keep running. */
export function hubStop(world: HubWorld): Command {
  return hubLeaf('stop', 'end the hub; agents keep running').action(async (_options: unknown, command: Command) => {
    const hub = await world.find(command.optsWithGlobals())
    const { hub_id, pid } = await hub.status()
    await hub.stop()
    // Whoever is told that it ended may copy its folder, or start another one.
    const isGone = await world.untilGone(pid)
    world.io.answer(
      { hub_id, pid, state: isGone ? 'stopped' : 'stopping' },
      `Hub ${hub_id} (pid ${pid}) ${isGone ? 'ended' : 'is ending'}. Its agents keep running.`,
    )
  })
}
