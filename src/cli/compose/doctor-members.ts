import { nodeClient } from '../../control/client.ts'
import { NfltrError } from '../../core/errors.ts'
import { isWithin } from '../../core/membership.ts'
import { loadMachine } from '../../identity/mesh-setup.ts'
import type { Home } from '../../ports/home.ts'
import type { MemberFacts } from '../../ports/peers.ts'
import type { Check } from '../commands/doctor.ts'
import { type RefusedHello, refusedLine } from '../commands/refused-hello.ts'
import type { Context } from '../compose.ts'
import { findControl } from './control-files.ts'
import { findMember } from './find-member.ts'
import { findRunningHub } from './hub-starter.ts'
import { instant } from './instant.ts'
import { keysWithinReach } from './keys-within-reach.ts'
import { lookAround, type Surroundings } from './look-around.ts'
import { projectOf } from './project.ts'
import { refusedHellos } from './refused-hellos.ts'

type Document = Readonly<Record<string, unknown>>

/**
 * What only the other processes can say: why hellos were refused, what agents with all tools could take here, and, for a machine
 * that was named, whether a spawn would find it ready.
 */
export async function memberChecks(
  context: Context,
  home: Home,
  options: { readonly node?: string },
): Promise<readonly Check[]> {
  const node = await statusOf(async () => nodeClient(await findControl(home.paths, { kind: 'node' })).status())
  const keys = await keysCheck(home, node)
  if ((await home.mesh.loadMembership()) === undefined) {
    return options.node === undefined ? keys : [...keys, noMesh(options.node)]
  }
  const hubs = (await home.running.list()).flatMap(({ hubId }) => hubId ?? [])
  const statuses = await Promise.all(
    hubs.map((hubId) => statusOf(async () => (await findRunningHub(home, hubId))?.status())),
  )
  const around = await lookAround(context, home)
  const notices = [node, ...statuses].flatMap((status) => (status?.['refused_hellos'] ?? []) as readonly RefusedHello[])
  return [
    ...keys,
    refusals([...notices, ...refusedHellos(around.refusals, 'this_command')]),
    ...(options.node === undefined ? [] : await nodeChecks(context, home, { around, name: options.node, own: node })),
  ]
}

async function statusOf(ask: () => Promise<object | undefined>): Promise<Document | undefined> {
  return await ask().then(
    (status) => status as Document | undefined,
    () => undefined,
  )
}

/** Rule 4: one user is one trust domain. What the owner chose is no defect; it is shown. */
async function keysCheck(home: Home, node: Document | undefined): Promise<readonly Check[]> {
  const allowed = (node?.['allows'] as Document | undefined)?.['all_tools'] ?? false
  const reach = allowed === false ? undefined : await keysWithinReach(home.paths.keys)
  return reach === undefined ? [] : [{ name: 'keys', ok: true, message: reach }]
}

/** Refusals that the machine which got them has to mend, whoever said them, and how. */
const fixes: Readonly<Record<string, string>> = {
  duplicate_identity: 'give the copied home a key of its own: remove it, and join with a new invite',
  membership_expired: 'check the clocks of both machines; an owner renews with: nfltr mesh renew NAME',
  revoked: 'the machine is out of the mesh: end its processes, or let it in again with a new invite',
  unsupported: 'bring nfltr to the same version on both machines',
  wrong_mesh: 'remove the address of the other mesh from --peer and the settings',
}

function refusals(notices: readonly RefusedHello[]): Check {
  const said = new Map(notices.map((notice) => [JSON.stringify(notice), notice]))
  if (said.size === 0) return { name: 'refusals', ok: true, message: 'no hello was refused' }
  const all = [...said.values()]
  const message = all.map((notice) => refusedLine(notice)).join('; ')
  // What others were refused here for is theirs to mend; being refused is ours.
  const own = all.find(({ by, code }) => by === 'peer' || code === 'duplicate_identity')
  if (own === undefined) return { name: 'refusals', ok: true, message }
  return { name: 'refusals', ok: false, message, fix: fixes[own.code] ?? 'see the message' }
}

function noMesh(name: string): Check {
  return {
    name: 'member',
    ok: false,
    message: `${name} cannot be looked for: this machine belongs to no mesh`,
    fix: 'nfltr mesh create, or join with an invite',
  }
}

async function nodeChecks(
  context: Context,
  home: Home,
  asked: { readonly around: Surroundings; readonly name: string; readonly own: Document | undefined },
): Promise<readonly Check[]> {
  const { around, name } = asked
  let member: MemberFacts
  try {
    member = findMember(around.members, name)
  } catch (thrown) {
    if (!(thrown instanceof NfltrError)) throw thrown
    const { message, hint } = thrown
    return [{ name: 'member', ok: false, message, ...(hint === undefined ? {} : { fix: hint }) }]
  }
  const membership = memberCheck(member)
  if (!membership.ok) return [membership]
  const isOwn = member.machinePeerId === (await loadMachine(home)).peerId
  const reach = isOwn ? ownReach(member.name, asked.own) : reachCheck(around, member)
  return [membership, reach, await readyCheck(context, home, member.name)]
}

function memberCheck(member: MemberFacts): Check {
  const { name, roles, revokedAtMs, hasLeft, expiresAtMs } = member
  const bad = (message: string, fix: string): Check => ({ name: 'member', ok: false, message, fix })
  if (revokedAtMs !== undefined) {
    const how = hasLeft === true ? 'left' : 'was revoked'
    return bad(`${name} ${how} at ${instant(revokedAtMs)}`, `let it in again: nfltr mesh invite --name ${name}`)
  }
  if (!isWithin(member, Date.now())) {
    return bad(`the membership of ${name} ended at ${instant(expiresAtMs)}`, `nfltr mesh renew ${name}`)
  }
  if (!roles.includes('node')) {
    return bad(`${name} is no node: ${roles.join(', ')}`, `nfltr mesh invite --role node --replace ${name}`)
  }
  return { name: 'member', ok: true, message: `${name} is a node until ${instant(expiresAtMs)}` }
}

/** Nobody dials oneself: whether the own node works, it says at its socket. */
function ownReach(name: string, status: Document | undefined): Check {
  if (status !== undefined)
    return { name: 'reach', ok: true, message: `${name} is this machine, and its node answered` }
  return {
    name: 'reach',
    ok: false,
    message: `${name} is this machine, and no node runs on it`,
    fix: 'nfltr node join',
  }
}

function reachCheck(around: Surroundings, { name, machinePeerId, addresses, lastSeenAtMs }: MemberFacts): Check {
  if (around.onlinePeerIds.has(machinePeerId)) return { name: 'reach', ok: true, message: `${name} answered` }
  const seen = lastSeenAtMs === undefined ? 'it was never seen here' : `it was last seen at ${instant(lastSeenAtMs)}`
  const tried = addresses.length === 0 ? 'no address of it is known' : `tried ${addresses.join(', ')}`
  const why = around.whyNot(machinePeerId)
  return {
    name: 'reach',
    ok: false,
    message: [`${name} did not answer; ${seen}`, tried, ...(why === undefined ? [] : [why])].join('; '),
    fix: `look on ${name}: nfltr node status, and nfltr doctor; is its address open to this machine?`,
  }
}

/** What a spawn would meet there, as the running hub of this project knows it: no hub is started for a question. */
async function readyCheck(context: Context, home: Home, name: string): Promise<Check> {
  const { hubId } = projectOf({ env: context.env })
  const hub = await findRunningHub(home, hubId)
  if (hub === undefined) {
    const message = `not asked whether ${name} takes agents: no hub of this project runs (nfltr hub serve)`
    return { name: 'node', ok: true, message }
  }
  const key = `doctor-${process.pid}-${Date.now()}`
  const reply = await hub.call({ tool: 'list_nodes', args: {}, callKey: key, sessionKey: key })
  const { nodes } = JSON.parse(reply.body) as { readonly nodes: readonly Document[] }
  const node = nodes.find((one) => one['name'] === name)
  const fix = `on ${name}: nfltr doctor`
  if (node === undefined) return { name: 'node', ok: false, message: `the hub knows no node ${name}`, fix }
  if (node['state'] !== 'online') {
    return { name: 'node', ok: false, message: `to the hub ${name} is ${String(node['state'])}`, fix }
  }
  const { unavailable } = node as { readonly unavailable?: { readonly message: string } }
  if (unavailable !== undefined) {
    return { name: 'node', ok: false, message: `${name} takes no agents: ${unavailable.message}`, fix }
  }
  const { free_slots: free, max_agents: most, claude_version: claude = 'of no known version' } = node
  const waits = free === 0 ? '; a spawn waits for one' : ''
  return {
    name: 'node',
    ok: true,
    message: `${name} has ${String(free)} of ${String(most)} slots free${waits}; Claude Code ${String(claude)}`,
  }
}
