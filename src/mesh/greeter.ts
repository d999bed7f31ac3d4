import type { Connection, Stream } from '@libp2p/interface'
import { type ErrorCode, NfltrError } from '../core/errors.ts'
import type { Clock } from '../ports/clock.ts'
import type { LinkPath, PeerFacts } from '../ports/peers.ts'
import { isNearby } from './addresses.ts'
import type { Admission } from './admission.ts'
import { FrameStream } from './frame-stream.ts'
import { type HelloSide, helloFrameMaxBytes, helloProtocol, refuse, sayHello } from './hello.ts'
import { answersWithin, type MemberLink, type MemberLinks } from './member-links.ts'
import type { Quarantine } from './quarantine.ts'
import type { Refusals } from './refusals.ts'
import type { Roster } from './roster.ts'
import { helloOf, judgeHello, type OwnStanding, type ProcessFacts, type ProvenPeer } from './standing.ts'
import type { Trust } from './trust.ts'

export interface GreeterOptions {
  readonly clock: Clock
  readonly process: ProcessFacts
  readonly quarantine: Quarantine
  readonly links: MemberLinks
  readonly refusals: Refusals
  /** What this process shows; undefined until it is a member. */
  readonly standing: () => OwnStanding | undefined
  readonly trust: () => Trust | undefined
  readonly roster: () => Roster | undefined
  readonly wallMs: () => number
  readonly highestEpochSeen: (hubId: string) => number | undefined
  /** Called for each peer that proved its membership, before anything is granted to it. */
  readonly onProven: (peer: ProvenPeer) => Promise<void>
}

/** How long an older link of the same key may stay silent before it makes room, in milliseconds. */
const duplicateProbeMs = 2_000

/** Refusals for which the other side may come again at once: they are about us, or about the moment. */
const momentary: readonly ErrorCode[] = ['no_mesh', 'internal', 'link_down', 'timed_out', 'queue_full', 'stopping']

/**
 * Brings connections through hello, once each, and puts those that pass into the list of member links. What a peer did
 * wrong is counted and, where it was refused, the PeerId is turned away for a minute.
 */
export class Greeter {
  readonly #options: GreeterOptions
  readonly #greetings = new WeakMap<Connection, Promise<MemberLink>>()

  constructor(options: GreeterOptions) {
    this.#options = options
  }

  /** The dialler's side: opens the hello stream at once. Repeated calls give the same answer. */
  greet(connection: Connection): Promise<MemberLink> {
    const known = this.#greetings.get(connection)
    if (known !== undefined) return known
    return this.#run(connection, async () => {
      const stream = await connection.newStream(helloProtocol)
      return this.#frames(stream)
    })
  }

  /** The listener's side, for a hello stream that the peer opened. */
  answer(connection: Connection, stream: Stream): Promise<MemberLink> {
    return this.#run(connection, async () => this.#frames(stream))
  }

  /**
   * The outcome of hello on a connection, whoever began it.
   *
   * @throws {NfltrError} why it did not pass; `link_down` when none is under way
   */
  outcome(connection: Connection): Promise<MemberLink> {
    return (
      this.#greetings.get(connection) ??
      Promise.reject(new NfltrError('link_down', 'The connection has not said hello.'))
    )
  }

  #frames(stream: Stream): FrameStream {
    return new FrameStream(stream, { clock: this.#options.clock, frameMaxBytes: helloFrameMaxBytes })
  }

  #run(connection: Connection, open: () => Promise<FrameStream>): Promise<MemberLink> {
    const admission = this.#options.quarantine.admissionOf(connection)
    if (!admission.beginHello()) {
      admission.cut(new NfltrError('protocol_violation', 'The peer said hello twice.'))
      return Promise.reject(new NfltrError('protocol_violation', 'The peer said hello twice.'))
    }
    const greeting = this.#greet(connection, admission, open)
    // Whoever cares awaits it too; a hello that nobody waits for is counted and done with.
    greeting.catch(() => {})
    this.#greetings.set(connection, greeting)
    return greeting
  }

  async #greet(connection: Connection, admission: Admission, open: () => Promise<FrameStream>): Promise<MemberLink> {
    let frames: FrameStream | undefined
    try {
      frames = await open()
      const standing = this.#options.standing()
      const trust = this.#options.trust()
      if (standing === undefined || trust === undefined) throw await refuse(frames, notYetMember())
      const found = await sayHello(frames, this.#side(connection, { standing, admission, trust }))
      frames.close()
      return this.#welcome(connection, admission, found)
    } catch (error) {
      const reason = error instanceof NfltrError ? error : lost(error)
      this.#count(connection, reason)
      // The refusal is on its way to the peer: it gets the time that a close takes, no more.
      frames?.close()
      await frames?.closed
      admission.abort(reason)
      throw reason
    }
  }

  #side(
    connection: Connection,
    {
      standing,
      admission,
      trust,
    }: { readonly standing: OwnStanding; readonly admission: Admission; readonly trust: Trust },
  ): HelloSide<ProvenPeer> {
    return {
      hello: helloOf(this.#options.process, standing, { nowMs: this.#options.clock.wallMs(), trust }),
      listsFor: (hello) => trust.listsBeyond(hello.revocationVersions),
      heard: ({ hasLists }) => admission.heardHello({ hasLists }),
      learn: async (hello, lists) => {
        await trust.takeSuccessions(hello.successions)
        await trust.takeCertificates(hello.issuerCertificates)
        await trust.takeLists(lists)
      },
      judge: async (hello) => {
        const peer = await judgeHello(hello, {
          meshId: standing.meshId,
          ownPeerId: this.#options.process.peerId,
          remotePeerId: connection.remotePeer.toString(),
          wallMs: this.#options.wallMs(),
          trust,
          newestOf: (machinePeerId) => this.#options.roster()?.entryOf(machinePeerId)?.membership,
        })
        await this.#makeRoom(connection.remotePeer.toString(), peer)
        await this.#options.onProven(peer)
        admission.prove()
        return peer
      },
      highestEpochSeen: (peer) =>
        peer.kind === 'hub' && peer.hubId !== undefined ? this.#options.highestEpochSeen(peer.hubId) : undefined,
    }
  }

  /** Two live starts of one key are one too many (R11): the older link is probed, and only silence makes it give way. */
  async #makeRoom(peerId: string, peer: ProvenPeer): Promise<void> {
    const others = this.#options.links.othersOf(peerId, peer.incarnation)
    await Promise.all(
      others.map(async (other) => {
        if (await answersWithin(other, { clock: this.#options.clock, boundMs: duplicateProbeMs })) throw duplicate(peer)
        other.admission.abort(new Error('silent while another process showed its key'))
      }),
    )
  }

  #welcome(
    connection: Connection,
    admission: Admission,
    found: { readonly peer: ProvenPeer; readonly highestEpochSeen: number | undefined },
  ): MemberLink {
    const { peer, highestEpochSeen } = found
    const peerId = connection.remotePeer.toString()
    // Two that came at the same moment both found room; the second of them does not.
    if (this.#options.links.othersOf(peerId, peer.incarnation).length > 0) throw duplicate(peer)
    if (connection.status !== 'open') throw new NfltrError('link_down', 'The connection ended during hello.')
    // What was revoked while hello ran.
    const objection = this.#options.trust()?.objectionTo(peer.membership)
    if (objection !== undefined) throw objection
    const facts = factsOf(connection, peer, highestEpochSeen)
    const link: MemberLink = {
      connection,
      admission,
      facts,
      incarnation: peer.incarnation,
      membership: peer.membership,
      ...(peer.certificate === undefined ? {} : { certificate: peer.certificate }),
    }
    admission.pass()
    this.#options.links.add(link)
    return link
  }

  #count(connection: Connection, reason: NfltrError): void {
    if (reason.code === 'link_down') return
    if (reason.details['refused'] === true && !momentary.includes(reason.code)) this.#options.refusals.note(reason)
    const isTheirs = reason.details['by'] === 'peer'
    if (isTheirs) return
    this.#options.refusals.add(reason.code)
    if (!momentary.includes(reason.code)) this.#options.quarantine.refuse(connection.remotePeer.toString(), reason.code)
  }
}

function lost(cause: unknown): NfltrError {
  return new NfltrError('link_down', 'The connection ended before hello was over.', {
    cause,
    hint: 'The peer may have turned this machine away after an earlier refusal; it does so for a minute.',
  })
}

function notYetMember(): NfltrError {
  return new NfltrError('no_mesh', 'The machine is not a member of a mesh yet.')
}

function duplicate(peer: ProvenPeer): NfltrError {
  return new NfltrError(
    'duplicate_identity',
    `Another process with the key of ${peer.membership.name} is connected and alive.`,
    { hint: 'Was a joined machine copied, or started twice? Each copy has to join with a key of its own.' },
  )
}

function factsOf(connection: Connection, peer: ProvenPeer, highestEpochSeen: number | undefined): PeerFacts {
  return {
    peerId: connection.remotePeer.toString(),
    machinePeerId: peer.membership.machinePeerId,
    name: peer.membership.name,
    kind: peer.kind,
    roles: peer.membership.roles,
    ...(peer.hubId === undefined ? {} : { hubId: peer.hubId }),
    softwareVersion: peer.softwareVersion,
    path: pathOf(connection),
    ...(highestEpochSeen === undefined ? {} : { highestEpochSeen }),
  }
}

function pathOf(connection: Connection): LinkPath {
  return isNearby(connection.remoteAddr) ? 'lan' : 'direct'
}
