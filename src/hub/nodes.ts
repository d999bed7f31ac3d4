import { type Contact, type ContactEvent, type ContactState, mayPlace, noContact, stepContact } from '../core/lease.ts'
import { limits } from '../core/limits.ts'
import { byHolder, isGoneFor } from '../core/membership.ts'
import type { Capacity, NodeCard } from '../core/model.ts'
import type { NodeView } from '../core/placement.ts'
import { encodeRecord } from '../core/record-json.ts'
import type { Agent } from '../core/task-record.ts'
import type { Clock } from '../ports/clock.ts'
import type { MemberFacts, PeerFacts, Peers } from '../ports/peers.ts'
import type { Store } from '../ports/store.ts'
import type { Engine } from '../runtime/engine.ts'
import { keys, type NodeRecord, prefixes, readAll } from './records.ts'

export interface NodesParts {
  readonly engine: Engine
  readonly store: Store
  readonly clock: Clock
  readonly peers: Peers
  /** How many attempts were offered to the node that it has not answered: they may take a slot each. */
  readonly pendingOn: (peerId: string) => number
  /** Whether work of this hub may be running there: its silence counts from the start. */
  readonly hasWorkOn: (peerId: string) => boolean
  readonly lastHeardAtMs: (peerId: string) => number | undefined
}

/** A node as everything in the hub sees it. */
export interface Node {
  readonly peerId: string
  readonly name: string
  readonly member?: MemberFacts
  readonly record?: NodeRecord
  readonly contact: Contact
  readonly peer?: PeerFacts
}

/** A member that may be a node, with what is kept of it. */
interface Known {
  readonly member: MemberFacts
  readonly kept: Kept
}

interface Kept {
  contact: Contact
  record?: NodeRecord
  isCaughtUp: boolean
  /** As late as the last word over its present link is known to be, by the monotonic clock. */
  heardAtMs: number
}

/** What the hub knows of the mesh's nodes: roster, cards, capacity and contact. */
export class Nodes {
  readonly #parts: NodesParts
  readonly #kept = new Map<string, Kept>()
  readonly #unverifiable = new Set<string>()
  /** What became of the roster that was looked at last. */
  #roster: { readonly members: readonly MemberFacts[]; readonly known: readonly Known[] } | undefined

  private constructor(parts: NodesParts) {
    this.#parts = parts
  }

  /** @throws {NfltrError} `store_damaged`, `store_newer` */
  static async load(parts: NodesParts): Promise<Nodes> {
    const nodes = new Nodes(parts)
    const members = new Set(parts.peers.members().map((member) => member.machinePeerId))
    // Of each it is known from here on for how long nothing was heard.
    nodes.all()
    const records = await readAll<NodeRecord>(parts.store, prefixes.node)
    for (const record of records) {
      if (members.has(record.peerId)) nodes.#of(record.peerId).record = record
    }
    const gone = records.filter((record) => !members.has(record.peerId))
    await parts.engine.transact((tx) => {
      for (const { peerId } of gone) tx.delete(keys.node(peerId))
    })
    return nodes
  }

  /** Every node that is a member, or that was and still has work; by name. */
  all(): readonly Node[] {
    const connected = new Map(this.#parts.peers.connected().map((peer) => [peer.peerId, peer]))
    return this.#known().map(({ member, kept: { contact, record } }) => {
      const { machinePeerId: peerId, name } = member
      const peer = connected.get(peerId)
      return {
        peerId,
        name,
        member,
        contact,
        ...(record === undefined ? {} : { record }),
        ...(peer === undefined ? {} : { peer }),
      }
    })
  }

  /** What the mesh calls a node; its PeerId where it is no member any more. */
  nameOf(peerId: string): string {
    return this.#known().find(({ member }) => member.machinePeerId === peerId)?.member.name ?? peerId
  }

  /** What placement chooses from. */
  views(): readonly NodeView[] {
    const nowMs = this.#parts.clock.nowMs()
    return this.#known().map(({ member: { machinePeerId: peerId, name }, kept }): NodeView => {
      const { contact, record, isCaughtUp } = kept
      const { state } = contact
      const isReady = isCaughtUp && mayPlace(contact) && !this.#isQuiet(peerId, kept, nowMs)
      const pending = this.#parts.pendingOn(peerId)
      if (record === undefined) return { peerId, name, state, isReady, pending }
      return { peerId, name, state, isReady, pending, card: record.card, capacity: record.capacity }
    })
  }

  /**
   * The nodes that a spawn may go to. This hub's own machine is none of them while no node was ever heard of there, unless
   * it is asked for by name: the owner of a mesh may be a node, and most run none.
   *
   * @param views - what `views` gave
   */
  candidates(named: string | undefined, views: readonly NodeView[]): readonly NodeView[] {
    const own = this.#parts.peers.self.machinePeerId
    return views.filter((view) => view.card !== undefined || view.peerId !== own || view.name === named)
  }

  /** A machine that was a node and may be one no longer. */
  gone(peerId: string): MemberFacts | undefined {
    const member = this.#parts.peers.members().find((candidate) => candidate.machinePeerId === peerId)
    return member !== undefined && isGoneFor('node', member) ? member : undefined
  }

  stateOf(peerId: string): ContactState {
    return this.#of(peerId).contact.state
  }

  /** Wall clock of the last word from the node; undefined when there never was one. */
  lastSeenAtMs(peerId: string): number | undefined {
    const { clock, lastHeardAtMs } = this.#parts
    const heardAtMs = lastHeardAtMs(peerId)
    if (heardAtMs !== undefined) return clock.wallMs() - Math.max(0, clock.nowMs() - heardAtMs)
    return this.#of(peerId).record?.seenAtMs
  }

  contactOf(peerId: string): Contact {
    return this.#of(peerId).contact
  }

  /** Nodes of which it is not known whether they still work. */
  unverifiable(): Iterable<string> {
    return this.#unverifiable
  }

  /** Attached links over which nothing was heard for a while: they are probed before anything is placed there. */
  quiet(): readonly string[] {
    const nowMs = this.#parts.clock.nowMs()
    const quiet: string[] = []
    for (const [peerId, kept] of this.#kept) {
      if (kept.contact.isAttached && this.#isQuiet(peerId, kept, nowMs)) quiet.push(peerId)
    }
    return quiet
  }

  get isCatchingUp(): boolean {
    return [...this.#kept.values()].some((kept) => kept.contact.isAttached && !kept.isCaughtUp)
  }

  /** Everything the tick has to look at: work without contact, or contact in doubt. */
  watched(): readonly string[] {
    return [...this.#kept]
      .filter(
        ([peerId, { contact }]) =>
          contact.state === 'unverifiable' || this.#parts.hasWorkOn(peerId) || isFading(contact),
      )
      .map(([peerId]) => peerId)
  }

  /** @returns whether the node's state changed */
  step(peerId: string, event: ContactEvent): boolean {
    const kept = this.#of(peerId)
    const { state, effects } = stepContact(kept.contact, event)
    this.#setContact(peerId, kept, state)
    if (event.type === 'attached' || event.type === 'detached') {
      kept.isCaughtUp = false
      kept.heardAtMs = Number.NEGATIVE_INFINITY
    }
    return effects.length > 0
  }

  /** This hub was not running: nothing is known of any node until it has answered. */
  wasNotRunning(atMs: number): void {
    for (const peerId of this.#kept.keys()) this.step(peerId, { type: 'was_not_running', atMs })
  }

  /** Free slots as the node last told them. */
  freeOn(peerId: string): number {
    return this.#of(peerId).record?.capacity.free ?? 0
  }

  /** Nodes with a link that is up. */
  attached(): readonly string[] {
    return [...this.#kept].filter(([, kept]) => kept.contact.isAttached).map(([peerId]) => peerId)
  }

  /** How long an agent's node may be silent before the agent counts as lost: as its spawn said, else as its node does. */
  lostAfterMs(peerId: string, agent: Agent): number {
    if (agent.isLostAfterGiven === true) return agent.lostAfterMs
    return this.#of(peerId).record?.card.lostAfterMs ?? agent.lostAfterMs
  }

  caughtUp(peerId: string): void {
    this.#of(peerId).isCaughtUp = true
  }

  /** What the node said of itself: kept, so that an absent node is still known for what it can do. */
  learn(peerId: string, said: { readonly capacity: Capacity; readonly card?: NodeCard | undefined }): void {
    const kept = this.#of(peerId)
    const card = said.card ?? kept.record?.card
    if (card === undefined) return
    const record: NodeRecord = { peerId, card, capacity: said.capacity, seenAtMs: this.#parts.clock.wallMs() }
    const isNews = said.card !== undefined && JSON.stringify(said.card) !== JSON.stringify(kept.record?.card)
    kept.record = record
    if (isNews) void this.#parts.engine.transact((tx) => tx.put(keys.node(peerId), encodeRecord(record)))
  }

  #isQuiet(peerId: string, kept: Kept, nowMs: number): boolean {
    // It only ever becomes later: what is new enough needs no second look.
    if (nowMs - kept.heardAtMs <= limits.unverifiableAfterMs) return false
    kept.heardAtMs = this.#parts.lastHeardAtMs(peerId) ?? Number.NEGATIVE_INFINITY
    return nowMs - kept.heardAtMs > limits.unverifiableAfterMs
  }

  /** Members that may be nodes. Of those that share a name the one that it belongs to is first, and so the one that the name means. */
  #known(): readonly Known[] {
    const members = this.#parts.peers.members()
    if (this.#roster?.members !== members) {
      const byPeerId = new Map(
        members.filter((member) => !isGoneFor('node', member)).map((member) => [member.machinePeerId, member]),
      )
      const known = [...byPeerId.values()]
        .toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : byHolder(a, b)))
        .map((member) => ({ member, kept: this.#of(member.machinePeerId) }))
      this.#roster = { members, known }
    }
    return this.#roster.known
  }

  #of(peerId: string): Kept {
    const known = this.#kept.get(peerId)
    if (known !== undefined) return known
    const isOwed = this.#parts.hasWorkOn(peerId)
    const contact = noContact(this.#parts.clock.nowMs(), { isOwed })
    const fresh: Kept = { contact, isCaughtUp: false, heardAtMs: Number.NEGATIVE_INFINITY }
    this.#kept.set(peerId, fresh)
    this.#setContact(peerId, fresh, contact)
    return fresh
  }

  #setContact(peerId: string, kept: Kept, contact: Contact): void {
    kept.contact = contact
    if (contact.state === 'unverifiable') this.#unverifiable.add(peerId)
    else this.#unverifiable.delete(peerId)
  }
}

/** A node that went away and is not called offline yet. */
function isFading(contact: Contact): boolean {
  return !contact.isAttached && contact.state === 'online'
}
