import { type ErrorCode, NfltrError } from '../../core/errors.ts'
import type { Machine } from '../../identity/mesh-setup.ts'
import type { MeshHost } from '../../mesh/peers.ts'
import type { Node } from '../../node/node.ts'
import type { Home } from '../../ports/home.ts'
import type { MemberFacts } from '../../ports/peers.ts'
import { untilHeard } from './until-heard.ts'

type Document = Readonly<Record<string, unknown>>

/** How long results may take to their hubs before a refusal, or before they stay here where it is forced, in milliseconds. */
const handOverMs = 5_000

/** How long agents may take to end once they are asked to, in milliseconds: as long as a stop may take, and a little. */
const agentsEndMs = 20_000

/** How often what is waited for is looked at, in milliseconds. */
const lookEveryMs = 50

/** What a member says to one whose membership counts for nothing there: it needs no telling. */
const outThere: ReadonlySet<ErrorCode> = new Set(['revoked', 'membership_expired', 'bad_signature', 'not_a_member'])

/**
 * Gives this machine's membership up: signed by the machine itself, so that no owner is needed. From the first durable step
 * on it is no member any more, whatever is killed; what it knew of the mesh goes last, and only once another member has
 * heard: nobody else could ever tell the rest.
 *
 * @throws {NfltrError} `unreachable` where none has, unless that was forced: the same command goes on from there
 */
export async function departFrom(parts: {
  readonly home: Home
  readonly mesh: MeshHost
  readonly machine: Machine
  /** Goes also where nobody hears of it. */
  readonly isUnheardFine?: boolean
}): Promise<Document> {
  const { home, mesh, machine } = parts
  const others = mesh
    .members()
    .filter((member) => member.machinePeerId !== machine.peerId && member.revokedAtMs === undefined)
  const wasOut = mesh.members().some((one) => one.machinePeerId === machine.peerId && isRevoked(one))
  const serial = await mesh.depart(machine.key)
  const heard = await untilHeard(
    mesh,
    others.map(({ machinePeerId }) => machinePeerId),
    ({ departures }) => (departures.get(machine.peerId) ?? 0) >= serial,
    {
      // Told by another member, or before this was interrupted.
      hasShown: (machinePeerId) => isOutFor(mesh, machinePeerId),
    },
  )
  // What it still learns would be written into the folder that goes now.
  await mesh.close()
  const isKnown = others.length === 0 || heard.size > 0 || wasOut
  if (!isKnown && parts.isUnheardFine !== true) throw unheard(others.map(({ name }) => name))
  await home.mesh.forget()
  const named = (isTold: boolean): readonly Document[] =>
    others
      .filter(({ machinePeerId }) => heard.has(machinePeerId) === isTold)
      .map(({ name, machinePeerId }) => ({ name, peer_id: machinePeerId }))
  return {
    left: { mesh_id: machine.meshId, name: machine.membership.name, peer_id: machine.peerId },
    told: named(true),
    not_told: named(false),
  }
}

function isRevoked({ revokedAtMs, hasLeft }: MemberFacts): boolean {
  return revokedAtMs !== undefined && hasLeft !== true
}

function isOutFor(mesh: MeshHost, machinePeerId: string): boolean {
  const why = mesh.whyNotConnected(machinePeerId)
  return why !== undefined && why.details['by'] === 'peer' && outThere.has(why.code)
}

function unheard(names: readonly string[]): NfltrError {
  return new NfltrError(
    'unreachable',
    `This machine has left, and no other member could be told: ${names.join(', ')}.`,
    {
      hint: 'Run nfltr node leave again when one of them is up, as with nfltr mesh serve on the owner’s machine. Where none ever will be, nfltr node leave --force forgets the mesh all the same.',
      details: { not_told: names },
    },
  )
}

/**
 * Ends a node's work so that the machine can leave: what ran has ended, and its hubs have what they are owed. Not forced, it
 * ends nothing and says what is in the way.
 *
 * @returns how many messages stay here unsent; not 0 only where it is forced
 * @throws {NfltrError} `in_use` while agents run or results wait; `timed_out` where agents did not end
 */
export async function emptyNode(node: Node, options: { readonly isForced: boolean }): Promise<number> {
  const wasDraining = node.isDraining
  // From here on nothing new comes in behind the look.
  node.drain()
  try {
    const { agents } = node.owed()
    if (agents.length > 0 && !options.isForced) throw agentsRun(agents)
    await node.stopAll('left')
    if (!(await within(agentsEndMs, () => node.owed().agents.length === 0))) {
      throw new NfltrError('timed_out', `${node.owed().agents.length} agents did not end in time.`, {
        hint: 'They go on ending; run the same command again.',
        details: { agents: node.owed().agents },
      })
    }
    await within(handOverMs, () => node.owed().messages === 0)
    const { messages } = node.owed()
    if (messages > 0 && !options.isForced) throw resultsWait(messages)
    return messages
  } catch (thrown) {
    if (!wasDraining) node.undrain()
    throw thrown
  }
}

function agentsRun(agents: readonly string[]): NfltrError {
  return new NfltrError('in_use', `${agents.length} agents run on this node.`, {
    hint: 'Wait for them, stop them from their hub, or stop them here with --force.',
    details: { agents },
  })
}

function resultsWait(messages: number): NfltrError {
  return new NfltrError('in_use', `${messages} messages of this node wait for their hub, results maybe among them.`, {
    hint: 'Start the hub, so that it collects them; or leave them here with --force.',
    details: { messages },
  })
}

async function within(withinMs: number, isSo: () => boolean): Promise<boolean> {
  for (let waitedMs = 0; !isSo(); waitedMs += lookEveryMs) {
    if (waitedMs >= withinMs) return false
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
  }
  return true
}
