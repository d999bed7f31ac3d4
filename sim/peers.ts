import { NfltrError } from '../src/core/errors.ts'
import type { AccountAnswer } from '../src/core/node-account.ts'
import type {
  AnswerAccount,
  Link,
  MemberFacts,
  PeerFacts,
  PeerListener,
  Peers,
  Unsubscribe,
} from '../src/ports/peers.ts'
import type { SimClock } from './clock.ts'
import { forever, type Life } from './life.ts'
import type { Connection, Network } from './network.ts'

/** What one process sees of the mesh. Connections come and go by themselves; the network says when. */
export class SimPeers implements Peers {
  readonly self: PeerFacts
  readonly life: Life
  readonly clock: SimClock
  readonly #network: Network
  readonly #listeners = new Set<PeerListener>()
  /** Open connections by the other process's PeerId, oldest first. */
  readonly #connections = new Map<string, { readonly facts: PeerFacts; readonly open: Connection[] }>()
  #accept: ((link: Link) => void) | undefined
  #answerAccount: AnswerAccount | undefined
  /** A node's word for hello: the highest epoch that it has seen of a hub (rule 7). */
  highestEpochOf: ((hubId: string) => number | undefined) | undefined

  constructor(options: {
    readonly self: PeerFacts
    readonly life: Life
    readonly clock: SimClock
    readonly network: Network
  }) {
    this.self = options.self
    this.life = options.life
    this.clock = options.clock
    this.#network = options.network
  }

  connected(): readonly PeerFacts[] {
    return [...this.#connections.values()].map(({ facts }) => facts)
  }

  watch(listener: PeerListener): Unsubscribe {
    this.#listeners.add(listener)
    for (const facts of this.connected()) listener.up(facts)
    return () => this.#listeners.delete(listener)
  }

  members(): readonly MemberFacts[] {
    return this.#network.members
  }

  watchMembers(_listener: () => void): Unsubscribe {
    return () => undefined
  }

  openSession(peerId: string, _options: { readonly signal: AbortSignal }): Promise<Link> {
    if (!this.life.act()) return forever()
    const connection = this.#connections.get(peerId)?.open.at(-1)
    if (connection === undefined) {
      return Promise.reject(new NfltrError('link_down', `No connection to ${peerId} was there.`))
    }
    return Promise.resolve(connection.openStream(this))
  }

  serveSessions(accept: (link: Link) => void): void {
    this.#accept = accept
  }

  /** A stream of another process has arrived. */
  accept(link: Link): void {
    if (this.life.isAlive) this.#accept?.(link)
  }

  get isServing(): boolean {
    return this.#accept !== undefined
  }

  askAccount(peerId: string, { after }: { readonly after?: string }): Promise<AccountAnswer> {
    const connection = this.#connections.get(peerId)?.open.at(-1)
    if (connection === undefined) {
      return Promise.reject(new NfltrError('link_down', `No connection to ${peerId} was there.`))
    }
    return connection.askAccount(this, after)
  }

  serveAccounts(answer: AnswerAccount): void {
    this.#answerAccount = answer
  }

  /** Another process asks. Waits, like the real thing, until somebody answers. */
  answerAccount(asker: PeerFacts, after: string | undefined): Promise<AccountAnswer> {
    return this.life.isAlive && this.#answerAccount !== undefined ? this.#answerAccount(asker, after) : forever()
  }

  want(_machinePeerId: string): void {
    // The network connects whatever it can.
  }

  async probe(peerId: string, _options: { readonly signal: AbortSignal }): Promise<number> {
    const startMs = this.clock.nowMs()
    const connection = this.#connections.get(peerId)?.open.at(-1)
    if (connection === undefined) throw new NfltrError('link_down', `No connection to ${peerId} was there.`)
    await connection.roundTrip(this)
    return this.clock.nowMs() - startMs
  }

  isConnectedTo(peerId: string): boolean {
    return this.#connections.has(peerId)
  }

  up(connection: Connection, facts: PeerFacts): void {
    const known = this.#connections.get(facts.peerId)
    if (known === undefined) {
      this.#connections.set(facts.peerId, { facts, open: [connection] })
      for (const listener of [...this.#listeners]) listener.up(facts)
    } else {
      this.#connections.set(facts.peerId, { facts, open: [...known.open, connection] })
    }
  }

  down(connection: Connection, peerId: string): void {
    const known = this.#connections.get(peerId)
    if (known === undefined) return
    const open = known.open.filter((other) => other !== connection)
    if (open.length > 0) {
      this.#connections.set(peerId, { ...known, open })
      return
    }
    this.#connections.delete(peerId)
    if (!this.life.isAlive) return
    for (const listener of [...this.#listeners]) listener.down(known.facts)
  }
}
