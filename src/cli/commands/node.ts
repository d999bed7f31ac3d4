import type { Command } from 'commander'
import { limits } from '../../core/limits.ts'
import type { NodeApi } from '../../ports/hub-api.ts'
import type { StoreCondition } from '../../ports/store.ts'
import { leaf } from '../command.ts'
import type { CliIo } from '../io.ts'
import { collect, collectText, keyValue, machineName, span, wholeNumber } from '../values.ts'
import { storeLines } from './hub.ts'
import { knockingText } from './mesh.ts'
import { type RefusedHello, refusedLine } from './refused-hello.ts'

type Document = Readonly<Record<string, unknown>>

export interface NodeWorld {
  readonly io: CliIo
  /** Joins if need be, then serves in this process until it is ended. */
  join(options: NodeJoinOptions, tell: (event: NodeEvent) => void): Promise<void>
  /** Gives this machine's membership up. */
  leave(options: NodeLeaveOptions): Promise<Document>
  /** A client of this home's running node. @throws {NfltrError} `not_running` */
  find(options: { readonly home?: string }): Promise<NodeApi>
}

export interface NodeJoinOptions {
  readonly home?: string
  readonly inviteFile?: string
  readonly peer?: readonly string[]
  readonly mesh?: string
  readonly name?: string
  readonly maxAgents?: number
  readonly maxAgentsPerHub?: number
  readonly allowHub?: readonly string[]
  readonly lostAfter?: number
  readonly label?: readonly (readonly [string, string])[]
  readonly describe?: string
  readonly capability?: readonly string[]
  readonly offer?: readonly (readonly [string, string])[]
  readonly allowAllTools?: boolean
  readonly listen?: readonly string[]
  /** False: members on the local network are neither looked for nor answered. */
  readonly lan?: boolean
  readonly claude?: string
  readonly passEnv?: readonly string[]
}

export interface NodeLeaveOptions {
  readonly home?: string
  /** Stops what runs, and leaves behind what nobody collects. */
  readonly force?: boolean
}

export interface NodeEvent {
  readonly event: 'knocking' | 'joined' | 'ready' | 'lost_link' | 'alert' | 'left'
  readonly [field: string]: unknown
}

/** `nfltr node join` — makes this machine a node. */
export function nodeJoin(world: NodeWorld): Command {
  return leaf('join', 'offer this machine to the hubs of the mesh')
    .option('--invite-file <file>', 'the invite; - reads standard input; also NFLTR_INVITE or the prompt')
    .option('--peer <multiaddr>', 'a member to dial; may be repeated', collectText)
    .option(
      '--mesh <fingerprint>',
      'without an invite: the mesh to ask to be let in to; its owner sees it in mesh show',
    )
    .option('--name <name>', 'the name to ask for; default: the host name', machineName)
    .option('--max-agents <n>', 'agents that may run at once (1)', wholeNumber({ min: 1, max: limits.maxAgentsMax }))
    .option(
      '--max-agents-per-hub <n>',
      'agents of one hub that may run at once (all)',
      wholeNumber({ min: 1, max: limits.maxAgentsMax }),
    )
    .option('--lost-after <span>', 'silence after which agents here count as lost (150s)', span({ minMs: 1 }))
    .option('--label <name=value>', 'a label hubs can ask for; may be repeated', collect(keyValue))
    .option('--describe <text>', 'what this machine is, for whoever chooses')
    .option('--capability <name>', 'a capability hubs can require; may be repeated', collectText)
    .option('--offer <name=path[:ro]>', 'a folder agents may work in; may be repeated', collect(keyValue))
    .option('--allow-all-tools', 'let agents here use every tool without asking')
    .option('--allow-hub <name>', 'only hubs of this machine may use the node; may be repeated', collect(machineName))
    .option('--listen <multiaddr>', 'an address to listen on; may be repeated', collectText)
    .option('--no-lan', 'neither look for members on the local network nor answer them there')
    .option('--claude <path>', 'the Claude Code program to run')
    .option('--pass-env <name>', 'a variable agents get as well; may be repeated', collectText)
    .addHelpText('after', '\nExample:\n  $ nfltr node join --invite-file invite.txt --max-agents 2 --label gpu=a100')
    .action(async (_options: unknown, command: Command) => {
      await world.join(command.optsWithGlobals(), (event) => world.io.event(event, describe(event)))
    })
}

/** `nfltr node status` */
export function nodeStatus(world: NodeWorld): Command {
  return leaf('status', 'what this machine’s node knows').action(async (_options: unknown, command: Command) => {
    const status = await (await world.find(command.optsWithGlobals())).status()
    const agents = (status['agents'] ?? []) as readonly Document[]
    const links = (status['links'] ?? []) as readonly Document[]
    const store = status['store'] as StoreCondition | undefined
    world.io.answer(
      status,
      [
        `${String(status['name'])}: ${String(status['state'])}; ${agents.length} agents, ${links.length} links`,
        ...agents.map((agent) => `  ${String(agent['agent_id'])} ${String(agent['state'])}`),
        ...(store === undefined ? [] : storeLines(store)),
        ...lanLine(status['lan']),
        ...((status['refused_hellos'] ?? []) as readonly RefusedHello[]).map(refusedLine),
      ].join('\n'),
    )
  })
}

/** `nfltr node leave` — this machine is a member of the mesh no more. */
export function nodeLeave(world: NodeWorld): Command {
  return leaf('leave', 'give up this machine’s membership of the mesh')
    .option('--force', 'stop agents that run, and leave what waits for hubs that are away')
    .action(async (_options: unknown, command: Command) => {
      const done = await world.leave(command.optsWithGlobals())
      const names = (key: string): string =>
        ((done[key] ?? []) as readonly Document[]).map(({ name }) => name).join(', ')
      const unsent = Number(done['unsent'] ?? 0)
      world.io.answer(
        done,
        [
          `${String((done['left'] as Document)['name'])} is no member of the mesh any more.`,
          ...(names('told') === '' ? [] : [`Told: ${names('told')}.`]),
          ...(names('not_told') === '' ? [] : [`Not reached: ${names('not_told')}; they hear it from the others.`]),
          ...(unsent === 0 ? [] : [`${unsent} messages to hubs stay unsent on this machine.`]),
          'Keys, settings, credentials and what agents left behind are still here.',
        ].join('\n'),
      )
      await world.io.flushed()
    })
}

/** Said where members on this network are not found by themselves. */
function lanLine(lan: unknown): readonly string[] {
  const { state, reason } = (lan ?? {}) as Document
  return state === 'unavailable' ? [`local network: members are not found by themselves: ${String(reason)}`] : []
}

/** What a node's owner has to know, in words. */
const alerts: Readonly<Record<string, string>> = {
  store_damaged: 'The store of this node is damaged; what is sound in it is used, and nothing else.',
  store_put_back: 'The store of this node was put back to an earlier time. What it has is compared with its hubs.',
  hub_store_put_back: 'The store of a hub was put back to an earlier time. It is told what this node has.',
  message_quarantined: 'A message of a hub could not be applied, and was set aside.',
  message_quarantined_by_hub: 'A hub set a message of this node aside, since it could not apply it.',
  message_unsendable:
    'What this node has to say is over a bound of the wire, and its hubs do not get it. See nfltr node status.',
}

function describe(event: NodeEvent): string {
  switch (event.event) {
    case 'knocking':
      return knockingText({ event: 'knocking', fingerprint: String(event['fingerprint']) })
    case 'joined':
      return `Joined mesh ${String(event['mesh_id'])} as ${String(event['name'])}.`
    case 'ready':
      return [
        `${String(event['name'])} is ready on ${(event['listen'] as readonly string[]).join(' ')}.`,
        ...(event['notes'] === undefined ? [] : (event['notes'] as readonly string[])),
      ].join('\n')
    case 'lost_link':
      return `Lost the link to ${String(event['name'] ?? event['peer'])}.`
    case 'alert':
      return [alerts[String(event['alert'])] ?? `Alert: ${String(event['alert'])}.`, event['found']].join(' ').trim()
    case 'left':
      if (event['has_left_mesh'] === true) return 'Stopped: this machine left the mesh.'
      return 'Stopped. Agents that run keep running; start the node again to go on.'
  }
}
