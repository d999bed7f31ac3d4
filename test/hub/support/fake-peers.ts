import { NfltrError } from '../../../src/core/errors.ts'
import type { AccountAnswer } from '../../../src/core/node-account.ts'
import type { Clock } from '../../../src/ports/clock.ts'
import type { Link, MemberFacts, PeerFacts, PeerListener, Peers, Unsubscribe } from '../../../src/ports/peers.ts'
import { hubFacts, type MemoryLinkPair, memoryLinkPair } from '../../contracts/memory-link.ts'
import type { ScriptedNode } from './scripted-node.ts'

/** The mesh as one hub process sees it: a roster, and links that the test makes and cuts. */
export class FakePeers implements Peers {
  readonly self: PeerFacts = hubFacts
  readonly #clock: Clock
  readonly #roster: Map<string, MemberFacts>
  readonly #nodes = new Map<string, ScriptedNode>()
  readonly #links = new Map<string, MemoryLinkPair>()
  readonly #listeners = new Set<PeerListener>()
  readonly #memberListeners = new Set<() => void>()
  readonly #silent = new Set<string>()
  readonly wanted = new Set<string>()
  /** Nodes to which session streams were opened, in order. */
  readonly opens: string[] = []

  constructor(clock: Clock) {
    this.#clock = clock
    this.#roster = new Map([['hub-machine', member('hub-machine', 'laptop', ['hub', 'owner'])]])
  }

  /** A machine joins the mesh; it is not connected yet. */
  join(node: ScriptedNode): void {
    this.#roster.set(node.peerId, member(node.peerId, node.name, ['node']))
    for (const listener of this.#memberListeners) listener()
  }

  /** An owner revokes a machine: it is cut off, and the roster says so. */
  revoke(node: ScriptedNode): void {
    const known = this.#roster.get(node.peerId)
    if (known !== undefined) this.#roster.set(node.peerId, { ...known, revokedAtMs: this.#clock.wallMs() })
    this.disconnect(node)
    for (const listener of this.#memberListeners) listener()
  }

  /** A member that is never connected. */
  addMember(facts: MemberFacts): void {
    this.#roster.set(facts.machinePeerId, facts)
    for (const listener of this.#memberListeners) listener()
  }

  connect(node: ScriptedNode): void {
    if (!this.#roster.has(node.peerId)) this.join(node)
    this.#nodes.set(node.peerId, node)
    this.#silent.delete(node.peerId)
    for (const listener of this.#listeners) listener.up(factsOf(node))
  }

  disconnect(node: ScriptedNode): void {
    this.#nodes.delete(node.peerId)
    this.#links.get(node.peerId)?.cut()
    for (const listener of this.#listeners) listener.down(factsOf(node))
  }

  /** From now on nothing passes in either direction, and neither side is told. */
  silence(node: ScriptedNode): void {
    this.#silent.add(node.peerId)
    this.#links.get(node.peerId)?.silence()
  }

  /** What is said from now on arrives again, over the same link. Nothing but control frames may have been lost. */
  hear(node: ScriptedNode): void {
    this.#silent.delete(node.peerId)
    const pair = this.#links.get(node.peerId)
    if (pair === undefined) return
    pair.hub.isDeaf = false
    pair.node.isDeaf = false
  }

  /** The hub's process is gone: its links break. */
  die(): void {
    this.#listeners.clear()
    this.#memberListeners.clear()
    this.#nodes.clear()
    for (const pair of this.#links.values()) pair.cut()
  }

  connected(): readonly PeerFacts[] {
    return [...this.#nodes.values()].map(factsOf)
  }

  watch(listener: PeerListener): Unsubscribe {
    this.#listeners.add(listener)
    for (const peer of this.connected()) listener.up(peer)
    return () => this.#listeners.delete(listener)
  }

  members(): readonly MemberFacts[] {
    return [...this.#roster.values()]
  }

  watchMembers(listener: () => void): Unsubscribe {
    this.#memberListeners.add(listener)
    return () => this.#memberListeners.delete(listener)
  }

  async openSession(peerId: string): Promise<Link> {
    const node = this.#nodes.get(peerId)
    if (node === undefined) throw new NfltrError('link_down', `${peerId} is not connected.`)
    const pair = memoryLinkPair({ clock: this.#clock, hub: hubFacts, node: factsOf(node) })
    this.#links.set(peerId, pair)
    this.opens.push(peerId)
    if (this.#silent.has(peerId)) pair.silence()
    node.accept(pair.node).catch(() => undefined)
    return pair.hub
  }

  serveSessions(): void {
    throw new Error('only a node serves sessions')
  }

  async askAccount(peerId: string): Promise<AccountAnswer> {
    const node = this.#nodes.get(peerId)
    if (node === undefined) throw new NfltrError('link_down', `${peerId} is not connected.`)
    return node.account
  }

  serveAccounts(): void {
    throw new Error('only a node tells what it has')
  }

  want(machinePeerId: string): void {
    this.wanted.add(machinePeerId)
  }

  async probe(peerId: string): Promise<number> {
    if (this.#nodes.has(peerId) && !this.#silent.has(peerId)) return 1
    throw new NfltrError('timed_out', `${peerId} did not answer.`)
  }
}

function member(machinePeerId: string, name: string, roles: MemberFacts['roles']): MemberFacts {
  return { machinePeerId, name, roles, addresses: [], issuedAtMs: 0, expiresAtMs: 2_000_000_000_000 }
}

function factsOf(node: ScriptedNode): PeerFacts {
  return {
    peerId: node.peerId,
    machinePeerId: node.peerId,
    name: node.name,
    kind: 'node',
    roles: ['node'],
    softwareVersion: '0.1.0',
    path: 'lan',
    ...(node.highestEpochSeen === undefined ? {} : { highestEpochSeen: node.highestEpochSeen }),
  }
}
