import { realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { nodeRoutes } from '../../control/server.ts'
import { NfltrError } from '../../core/errors.ts'
import type { NodeCard } from '../../core/model.ts'
import type { PrivateKey } from '../../identity/keys.ts'
import { clearFormerMesh, ensureKey, isLeaving, loadMachine } from '../../identity/mesh-setup.ts'
import { makeReceipt } from '../../identity/receipts.ts'
import { createKeepers } from '../../keeper/client.ts'
import { createMesh, type MeshHost } from '../../mesh/peers.ts'
import { openNode } from '../../node/node.ts'
import { agentFolders, type OfferedFolder } from '../../platform/agent-folders.ts'
import { systemClock } from '../../platform/clock.ts'
import { giveBackAfterStart } from '../../platform/heap.ts'
import { bootId } from '../../platform/process-table.ts'
import { systemRandom } from '../../platform/random.ts'
import type { Home } from '../../ports/home.ts'
import { Engine } from '../../runtime/engine.ts'
import { openHome } from '../../store/home/home.ts'
import { openLevelStore } from '../../store/level-store.ts'
import type { NodeEvent, NodeJoinOptions, NodeLeaveOptions } from '../commands/node.ts'
import type { Context } from '../compose.ts'
import { agentProgram, askedAtOnce, credentialOf } from './agent-program.ts'
import { publishControl } from './control-files.ts'
import { checkDeclared } from './declared.ts'
import { departFrom, emptyNode } from './departure.ts'
import { keepIssuer } from './issuer.ts'
import { givenInvite, redeem, refuseForeign } from './join-mesh.ts'
import { keysWithinReach } from './keys-within-reach.ts'
import { knockUntilAnswered, requireWayIn } from './knocking.ts'
import { processLifetime } from './lifetime.ts'
import { addresses, machineFacts, requireRole, settingsOfHome, type Where } from './mesh-process.ts'
import { allowsDocument, type LinkLog, nodeStatusDocument } from './node-status.ts'
import { registerListening } from './registration.ts'
import { guardRestarts } from './restart-guard.ts'
import { Teardown } from './teardown.ts'

/**
 * Makes this machine a node and serves until the process is asked to end. Agents that run by then keep running: their keepers
 * are processes of their own, and the next start takes them over.
 *
 * @throws {NfltrError} `no_invite` without a membership and an invite, `key_held` where a node of this home runs already, and
 *   what the issuer, the store or a flag is refused for
 */
export async function serveNode(
  context: Context,
  options: NodeJoinOptions,
  tell: (event: NodeEvent) => void,
): Promise<void> {
  if (await runNode(context, options, { tell })) process.exit()
}

/** Starts the node once more, only to empty it and to leave the mesh. @throws {NfltrError} as `emptyNode`, and as `serveNode` */
export async function leaveAsNode(
  context: Context,
  options: NodeLeaveOptions,
): Promise<Readonly<Record<string, unknown>>> {
  let left: Readonly<Record<string, unknown>> = {}
  const given = options.home === undefined ? {} : { home: options.home }
  await runNode(context, given, {
    tell: () => undefined,
    leaving: { ...options, left: (document) => (left = document) },
  })
  return left
}

interface NodeRun {
  readonly tell: (event: NodeEvent) => void
  readonly leaving?: NodeLeaveOptions & { readonly left: (document: Readonly<Record<string, unknown>>) => void }
}

/** @returns whether it served until it was asked to end */
async function runNode(context: Context, options: NodeJoinOptions, { tell, leaving }: NodeRun): Promise<boolean> {
  const home = openHome({ ...options, env: context.env })
  const settings = await nodeSettings(context, home, options)
  const name = options.name ?? settings.name
  const where = await addresses(context, {
    home,
    listen: options.listen,
    peers: options.peer,
    lan: options.lan,
  })
  const lifetime = processLifetime()
  const teardown = new Teardown()
  let guard: ReturnType<typeof guardRestarts> | undefined
  let hasLeft = false
  try {
    const held = await home.keys.lock('machine')
    teardown.add(() => held.release())
    await clearFormerMesh(home)
    const invite = await invitationFor(context, home, options)
    if (invite === undefined && !(await isMember(home))) requireWayIn(context, { ...options, peer: where.peers })
    const program = agentProgram(context, { home, program: settings.program, passEnv: options.passEnv ?? [] })
    // What takes longest of a start needs nothing of the rest; a machine that has yet to join may wait for hours.
    const driver = (await isMember(home)) ? askedAtOnce(program) : program
    const key = await ensureKey(home, 'machine')
    let highestEpoch: (hubId: string) => number | undefined = () => undefined
    const mesh = await openNodeMesh(context, { home, key, where, highestEpochSeen: (hubId) => highestEpoch(hubId) })
    teardown.add(() => mesh.close())
    const wish = { ...options, ...(name === undefined ? {} : { name }) }
    if (invite !== undefined) await redeem(mesh, invite, wish)
    else if (!(await isMember(home))) {
      const knocking = { mesh, options: { ...wish, peer: where.peers }, roles: ['node'], lifetime, tell } as const
      if (!(await knockUntilAnswered(context, knocking))) return false
    }
    const machine = await loadMachine(home)
    requireRole(machine, 'node')
    tell({ event: 'joined', mesh_id: machine.meshId, name: machine.membership.name, peer_id: machine.peerId })
    const links = watchLinks(mesh, tell)
    const store = await openLevelStore(home.paths.node, { repairCommand: 'nfltr node repair' })
    teardown.add(() => store.close())
    const isAskedFor = process.stdin.isTTY === true
    guard = guardRestarts(home.paths.node, { isAskedFor, command: 'nfltr node join, in a terminal', teardown })
    const clock = systemClock()
    const engine = new Engine(store)
    const node = await openNode({
      engine,
      store,
      clock,
      random: systemRandom(),
      peers: mesh,
      keepers: createKeepers({ attemptsDir: join(home.paths.node, 'attempts'), runDir: home.paths.run, clock }),
      driver,
      workspaces: agentFolders({ agentsDir: join(home.paths.node, 'agents'), offers: settings.offers }),
      signReceipt: (body) => makeReceipt(key, body),
      bootId: bootId(),
      note: ({ event, fields }) => {
        if (alertNotes.has(event)) tell({ event: 'alert', alert: event, ...fields })
      },
      settings: {
        description: settings.description,
        labels: Object.fromEntries(options.label ?? []),
        capabilities: options.capability ?? [],
        offers: settings.offers.map(({ name, mode }) => ({ name, mode })),
        maxAgents: settings.maxAgents,
        ...(options.allowHub === undefined ? {} : { allowHubs: options.allowHub }),
        ...(options.maxAgentsPerHub === undefined ? {} : { maxAgentsPerHub: options.maxAgentsPerHub }),
        ...(options.lostAfter === undefined ? {} : { lostAfterMs: options.lostAfter }),
        allowAllTools: allToolsOf(context, options),
        credential: settings.credential,
        version: context.version,
        ...machineFacts,
      },
    })
    void store.damaged.then((damage) => tell({ event: 'alert', alert: 'store_damaged', ...damage }))
    highestEpoch = (hubId) => node.highestEpoch(hubId)
    teardown.add(() => node.close())
    const leave = async (isForced: boolean) => {
      const unsent = await emptyNode(node, { isForced })
      const departed = await departFrom({ home, mesh, machine })
      return { ...departed, unsent }
    }
    if (leaving !== undefined) node.drain()
    await node.start()
    if (leaving !== undefined) {
      leaving.left(await leave(leaving.force === true))
      return false
    }
    const issuer = await keepIssuer(context, { home })
    teardown.add(() => issuer.close())
    const control = await publishControl(
      home.paths,
      { kind: 'node' },
      nodeRoutes({
        status: () => nodeStatusDocument({ node, mesh, links, home, store, allowHubs: options.allowHub }),
        leave: async ({ isForced }) => {
          try {
            return await leave(isForced)
          } finally {
            // Also where nobody could be told of it: the same command goes on without the node.
            hasLeft = !(await isMember(home)) || (await isLeaving(home, machine))
            if (hasLeft) lifetime.end()
          }
        },
        account: (hubId, after) => node.account(hubId, after),
      }),
    )
    teardown.add(() => control.close())
    const listen = mesh.listenAddresses()
    const registered = await registerListening(home, { mesh, facts: { kind: 'node', peerId: machine.peerId } })
    teardown.add(() => registered.release())
    tell({
      event: 'ready',
      peer_id: machine.peerId,
      name: machine.membership.name,
      listen,
      pid: process.pid,
      allows: allowsDocument(node.card, options.allowHub),
      credential: node.card.credential,
      ...(node.card.claudeVersion === undefined ? {} : { claude_version: node.card.claudeVersion }),
      ...(await notesOf(node.card, home)),
    })
    guard.ready()
    giveBackAfterStart()
    const failure = await Promise.race([lifetime.ending, store.failed, engine.failed])
    if (failure instanceof Error) throw failure
    tell({ event: 'left', name: machine.membership.name, ...(hasLeft ? { has_left_mesh: true } : {}) })
    return true
  } catch (error) {
    guard?.failed(error)
    throw error
  } finally {
    await teardown.run()
  }
}

/** What the node notes that its owner has to know. */
const alertNotes: ReadonlySet<string> = new Set([
  'store_put_back',
  'hub_store_put_back',
  'message_quarantined',
  'message_quarantined_by_hub',
  'message_unsendable',
])

/** An invite is needed, and asked for, only by a machine that is no member; a member ignores one of its own mesh. */
async function invitationFor(context: Context, home: Home, options: NodeJoinOptions) {
  const membership = await home.mesh.loadMembership()
  const mayAsk = membership === undefined && options.mesh === undefined
  const invite = await givenInvite(context, options, { mayAsk })
  if (membership === undefined) return invite
  refuseForeign(invite, membership)
  return undefined
}

async function isMember(home: Home): Promise<boolean> {
  return (await home.mesh.loadMembership()) !== undefined
}

async function openNodeMesh(
  context: Context,
  of: {
    readonly home: Home
    readonly key: PrivateKey
    readonly where: Where
    readonly highestEpochSeen: (hubId: string) => number | undefined
  },
): Promise<MeshHost> {
  const { home, key, where, highestEpochSeen } = of
  const own = await home.mesh.loadMembership()
  return await createMesh({
    key,
    kind: 'node',
    ...(own === undefined ? {} : { standing: { meshId: own.meshId, membership: own.membership } }),
    files: home.mesh,
    clock: systemClock(),
    random: systemRandom(),
    softwareVersion: context.version,
    ...where,
    highestEpochSeen,
  })
}

interface ResolvedSettings {
  readonly name?: string
  readonly program: string
  readonly maxAgents: number
  readonly description: string
  readonly offers: readonly OfferedFolder[]
  readonly credential: NodeCard['credential']
}

/** Flags before `NFLTR_*` before the file; checked before anything is opened, so that a wrong flag changes nothing. */
async function nodeSettings(context: Context, home: Home, options: NodeJoinOptions): Promise<ResolvedSettings> {
  const set = await settingsOfHome(context, home)
  const description = options.describe ?? set['node.description'] ?? ''
  checkDeclared(options, description)
  const credential = await credentialOf(context, home)
  const kept = await home.credentials.load()
  return {
    ...(set.name === undefined ? {} : { name: set.name }),
    program: options.claude ?? set['node.claude'] ?? 'claude',
    maxAgents: options.maxAgents ?? set['node.max_agents'] ?? 1,
    description,
    offers: await Promise.all((options.offer ?? []).map(offeredFolder)),
    credential: credential === undefined ? 'none' : kept === undefined ? 'env' : kept.kind,
  }
}

/** @throws {NfltrError} `invalid_argument` for a name or folder that cannot be offered */
async function offeredFolder([name, value]: readonly [string, string]): Promise<OfferedFolder> {
  const isReadOnly = value.endsWith(':ro')
  const path = isReadOnly ? value.slice(0, -':ro'.length) : value
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name)) {
    throw new NfltrError('invalid_argument', `--offer: ${JSON.stringify(name)} cannot be an offer's name.`, {
      hint: 'Use letters, digits, point, _ and -.',
      details: { argument: '--offer' },
    })
  }
  const isFolder = await stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  )
  if (!isFolder)
    throw new NfltrError('invalid_argument', `--offer: ${path} is no folder.`, {
      hint: 'Offer a folder that is there: --offer NAME=PATH, or NAME=PATH:ro.',
      details: { argument: '--offer' },
    })
  return { name, mode: isReadOnly ? 'ro' : 'rw', path: await realpath(path) }
}

/** The program refuses to skip permissions for root outside a sandbox; it then gets a list of tools instead. */
function allToolsOf(context: Context, options: NodeJoinOptions): NodeCard['allows']['allTools'] {
  if (options.allowAllTools !== true) return false
  const isSandboxed = context.env['IS_SANDBOX'] !== undefined && (options.passEnv ?? []).includes('IS_SANDBOX')
  return process.getuid?.() === 0 && !isSandboxed ? 'listed' : true
}

/** What a person should hear at once: why no agent can run here, and what those that run can take. */
async function notesOf(card: NodeCard, home: Home): Promise<{ readonly notes?: readonly string[] }> {
  const notes: string[] = []
  const { unavailable } = card
  if (unavailable !== undefined) {
    const remedy =
      unavailable.reason === 'not_logged_in'
        ? ' Run `claude setup-token` and `nfltr config add-credential --kind oauth-token`, or set ANTHROPIC_API_KEY.'
        : ''
    notes.push(`No slots: ${unavailable.message}${remedy}`)
  }
  const reach = card.allows.allTools === false ? undefined : await keysWithinReach(home.paths.keys)
  if (reach !== undefined) notes.push(reach)
  return notes.length === 0 ? {} : { notes }
}

/** Remembers since when each peer is connected; lost hubs are told. */
function watchLinks(mesh: MeshHost, tell: (event: NodeEvent) => void): LinkLog {
  const since = new Map<string, number>()
  mesh.watch({
    up: (peer) => void since.set(peer.peerId, Date.now()),
    down: (peer) => {
      since.delete(peer.peerId)
      if (peer.kind === 'hub') tell({ event: 'lost_link', peer: peer.peerId, name: peer.name, kind: peer.kind })
    },
  })
  return { since: (peerId) => since.get(peerId) }
}
