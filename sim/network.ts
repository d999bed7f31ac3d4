import { NfltrError } from '../src/core/errors.ts'
import { limits } from '../src/core/limits.ts'
import type { AccountAnswer } from '../src/core/node-account.ts'
import type { Link, MemberFacts, PeerFacts } from '../src/ports/peers.ts'
import { decodeAccount, encodeAccount } from '../src/wire/account-codec.ts'
import type { Life } from './life.ts'
import { LinkEnd } from './link.ts'
import type { SimPeers } from './peers.ts'
import { Pipe, type PipeDelays } from './pipe.ts'
import type { SeededRandom } from './random.ts'
import type { World } from './world.ts'

export interface NetworkOptions {
  readonly world: World
  readonly members: readonly MemberFacts[]
  readonly delays: PipeDelays
  /** Sees each frame as it is handed over. */
  readonly onFrame: (from: SimPeers, to: PeerFacts, frame: Uint8Array, link: Link) => void
}

/** How long a connection over which nothing comes through is kept, in milliseconds. */
const connectionDeadMs = { from: 6_000, to: 20_000 } as const

/** All connections between hubs and nodes, and what goes wrong with them. */
export class Network {
  readonly world: World
  readonly members: readonly MemberFacts[]
  readonly random: SeededRandom
  readonly options: NetworkOptions
  /** The living processes, by PeerId. */
  readonly #processes = new Map<string, SimPeers>()
  readonly #connections = new Set<Connection>()
  readonly #clogged = new Map<string, number>()
  readonly #dialling = new Set<string>()

  constructor(options: NetworkOptions) {
    this.options = options
    this.world = options.world
    this.members = options.members
    this.random = options.world.random('network')
  }

  /** A process is there; connections to it are made from now on, and end with it. */
  join(peers: SimPeers): void {
    const { peerId } = peers.self
    this.#processes.set(peerId, peers)
    peers.life.onDeath(() => {
      if (this.#processes.get(peerId) === peers) this.#processes.delete(peerId)
      for (const connection of [...this.#connections]) {
        if (connection.has(peers)) connection.break({ after: () => this.random.next() * 50 })
      }
    })
    for (const other of this.#processes.values()) this.dial(peers, other)
  }

  isClogged(from: string, to: string): boolean {
    return (this.#clogged.get(`${from}>${to}`) ?? 0) > 0
  }

  /** Nothing gets through in this direction for a while. */
  clog(from: string, to: string, forMs: number): void {
    const key = `${from}>${to}`
    this.world.note(`clog ${key} for ${forMs.toFixed(0)}`)
    this.#clogged.set(key, (this.#clogged.get(key) ?? 0) + 1)
    for (const connection of this.#connections) this.#killWhileClogged(connection)
    this.world.after(forMs, () => this.#unclog(key))
  }

  /** Everything gets through again. */
  heal(): void {
    for (const key of [...this.#clogged.keys()]) this.#unclog(key, true)
  }

  /** Breaks a connection; each side notices on its own. @returns whether there was one */
  breakOne(random: SeededRandom): boolean {
    const open = [...this.#connections].filter((connection) => connection.isWhole)
    if (open.length === 0) return false
    random.pick(open).break({ after: () => (random.chance(0.4) ? 0 : random.next() * 3_000) })
    return true
  }

  /** A connection of which neither side is told: each notices when it has heard nothing for too long. */
  vanishOne(random: SeededRandom): boolean {
    const open = [...this.#connections].filter((connection) => connection.isWhole)
    if (open.length === 0) return false
    random.pick(open).break({ after: () => random.next() * 20_000 })
    return true
  }

  /** The connections of a process that is about to die: the other sides find out so much later. */
  leaveHanging(life: Life, after: () => number): void {
    for (const connection of [...this.#connections]) {
      if (connection.isOf(life)) connection.break({ after })
    }
  }

  /** Breaks one session stream and leaves its connection. */
  breakStream(random: SeededRandom): boolean {
    const open = [...this.#connections].filter((connection) => connection.streams.length > 0)
    if (open.length === 0) return false
    random.pick(open).breakStream(random)
    return true
  }

  forget(connection: Connection): void {
    this.#connections.delete(connection)
  }

  /** A connection was lost: the process that has this PeerId by now is dialled. */
  redial(from: SimPeers, peerId: string): void {
    const to = this.#processes.get(peerId)
    if (to !== undefined) this.dial(from, to)
  }

  /** Redials until there is a connection, as the link keepers of both sides would. */
  dial(a: SimPeers, b: SimPeers): void {
    const [hub, node] = a.self.kind === 'hub' ? [a, b] : [b, a]
    if (hub.self.kind !== 'hub' || node.self.kind !== 'node') return
    const key = `${hub.life.name}>${node.life.name}`
    if (this.#dialling.has(key)) return
    this.#dialling.add(key)
    this.world.after(20 + this.random.next() * 400, () => {
      this.#dialling.delete(key)
      if (!hub.life.isAlive || !node.life.isAlive || hub.isConnectedTo(node.self.peerId)) return
      const isBlocked =
        this.isClogged(hub.self.peerId, node.self.peerId) || this.isClogged(node.self.peerId, hub.self.peerId)
      if (isBlocked || !node.isServing || hub.life.isFrozen || node.life.isFrozen) {
        this.dial(hub, node)
        return
      }
      const connection = new Connection(this, hub, node)
      this.#connections.add(connection)
      connection.begin()
    })
  }

  #unclog(key: string, wholly = false): void {
    const left = wholly ? 0 : (this.#clogged.get(key) ?? 1) - 1
    if (left > 0) {
      this.#clogged.set(key, left)
      return
    }
    if (!this.#clogged.delete(key)) return
    this.world.note(`unclog ${key}`)
    for (const connection of this.#connections) connection.unclog()
  }

  #killWhileClogged(connection: Connection): void {
    const { from, to } = connectionDeadMs
    this.world.after(from + this.random.next() * (to - from), () => {
      if (connection.isClogged && connection.isWhole) {
        this.world.count('connection given up while nothing came through')
        connection.break({ after: () => this.random.next() * 2_000 })
      }
    })
  }
}

/** One connection between a hub and a node, and the session streams over it. */
export class Connection {
  readonly #network: Network
  readonly #hub: SimPeers
  readonly #node: SimPeers
  readonly #streams = new Set<{ readonly ends: readonly [LinkEnd, LinkEnd]; readonly pipes: readonly [Pipe, Pipe] }>()
  #isBroken = false

  constructor(network: Network, hub: SimPeers, node: SimPeers) {
    this.#network = network
    this.#hub = hub
    this.#node = node
  }

  get isWhole(): boolean {
    return !this.#isBroken
  }

  get streams(): readonly (readonly [LinkEnd, LinkEnd])[] {
    return [...this.#streams].map(({ ends }) => ends).filter(([a, b]) => !a.isClosed || !b.isClosed)
  }

  get isClogged(): boolean {
    const [hub, node] = [this.#hub.self.peerId, this.#node.self.peerId]
    return this.#network.isClogged(hub, node) || this.#network.isClogged(node, hub)
  }

  isOf(life: Life): boolean {
    return life === this.#hub.life || life === this.#node.life
  }

  has(peers: SimPeers): boolean {
    return peers === this.#hub || peers === this.#node
  }

  /** Hello is over: each side learns of the other, in its own time. */
  begin(): void {
    const { world, random } = this.#network
    const [hub, node] = [this.#hub, this.#node]
    const { hubId } = hub.self
    const seen = hubId === undefined ? undefined : node.highestEpochOf?.(hubId)
    world.note(`connected ${hub.life.name} ${node.life.name}`)
    this.#later(node, random.next() * 20, () => node.up(this, hub.self))
    const facts: PeerFacts = seen === undefined ? node.self : { ...node.self, highestEpochSeen: seen }
    this.#later(hub, random.next() * 20, () => hub.up(this, facts))
  }

  openStream(hub: SimPeers): Link {
    const { world, random, options } = this.#network
    const node = this.#node
    const pipe = (from: string, to: string): Pipe =>
      new Pipe({ world, random, delays: options.delays, isClogged: () => this.#network.isClogged(from, to) })
    const there = pipe(hub.self.peerId, node.self.peerId)
    const back = pipe(node.self.peerId, hub.self.peerId)
    const hubEnd: LinkEnd = new LinkEnd({
      life: hub.life,
      clock: hub.clock,
      peer: node.self,
      pipe: there,
      onSend: (frame) => options.onFrame(hub, node.self, frame, hubEnd),
    })
    const nodeEnd: LinkEnd = new LinkEnd({
      life: node.life,
      clock: node.clock,
      peer: hub.self,
      pipe: back,
      onSend: (frame) => options.onFrame(node, hub.self, frame, nodeEnd),
    })
    hubEnd.connect(nodeEnd)
    nodeEnd.connect(hubEnd)
    this.#streams.add({ ends: [hubEnd, nodeEnd], pipes: [there, back] })
    if (this.#isBroken) there.cut()
    else there.send(() => node.life.reach(() => node.accept(nodeEnd)))
    return hubEnd
  }

  /** A question and its answer as bytes, each on its way for a while; lost with the connection, and then given up. */
  askAccount(hub: SimPeers, after: string | undefined): Promise<AccountAnswer> {
    const { delays } = this.#network.options
    const node = this.#node
    const ask = encodeAccount(after === undefined ? { type: 'ask' } : { type: 'ask', after })
    const carry = (to: SimPeers, tell: () => void): void =>
      to.life.after(delays.baseMs + delays.jitterMs, () => {
        if (!this.#isBroken && !this.isClogged) tell()
      })
    return new Promise((resolve, reject) => {
      hub.life.after(limits.accountAnswerMs, () => reject(new NfltrError('timed_out', 'The node did not answer.')))
      carry(node, () => {
        const asked = decodeAccount(ask)
        node.answerAccount(hub.self, asked.type === 'ask' ? asked.after : undefined).then(
          (answer) => {
            const page = decodeAccount(encodeAccount({ type: 'page', ...answer }))
            carry(hub, () => (page.type === 'page' ? resolve(page) : reject(new Error('the answer was no page'))))
          },
          (error: unknown) => carry(hub, () => reject(error)),
        )
      })
    })
  }

  async roundTrip(from: SimPeers): Promise<void> {
    const { delays } = this.#network.options
    await from.life.delayed(2 * (delays.baseMs + delays.jitterMs), () => undefined)
    if (this.#isBroken || this.isClogged) throw new NfltrError('link_down', 'The connection was gone.')
  }

  breakStream(random: SeededRandom): void {
    const { world } = this.#network
    const open = [...this.#streams].filter(({ ends }) => ends.some((end) => !end.isClosed))
    const stream = random.pick(open)
    for (const pipe of stream.pipes) pipe.cut()
    const reason = new NfltrError('link_down', 'The stream was reset.')
    const slowSide = random.int(0, 2)
    for (const [index, end] of stream.ends.entries()) {
      world.after(index === slowSide ? random.next() * 3_000 : 0, () => end.reach(() => end.end(reason)))
    }
  }

  /** Cuts everything at some byte. Each living side notices `after` so many milliseconds. */
  break(options: { readonly after: () => number }): void {
    if (this.#isBroken) return
    this.#isBroken = true
    const { world } = this.#network
    world.note(`broke ${this.#hub.life.name} ${this.#node.life.name}`)
    for (const { pipes } of this.#streams) for (const pipe of pipes) pipe.cut()
    let left = 2
    for (const [index, side] of [this.#hub, this.#node].entries()) {
      const other = side === this.#hub ? this.#node : this.#hub
      world.after(options.after(), () => {
        left -= 1
        if (left === 0) this.#network.forget(this)
        side.life.reach(() => {
          const reason = new NfltrError('link_down', 'The connection was lost.')
          for (const { ends } of this.#streams) ends[index]?.end(reason)
          side.down(this, other.self.peerId)
          if (side === this.#hub) this.#network.redial(this.#hub, other.self.peerId)
        })
      })
    }
  }

  unclog(): void {
    if (this.#isBroken) return
    for (const { pipes } of this.#streams) for (const pipe of pipes) pipe.unclog()
  }

  #later(side: SimPeers, delayMs: number, tell: () => void): void {
    side.life.after(delayMs, () => {
      if (!this.#isBroken) tell()
    })
  }
}
