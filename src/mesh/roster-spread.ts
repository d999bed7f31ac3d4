import type { Connection, Stream } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { PeerFacts } from '../ports/peers.ts'
import type { RosterDigest } from '../wire/roster-codec.ts'
import { FrameStream } from './frame-stream.ts'
import type { MemberLink, MemberLinks } from './member-links.ts'
import type { OwnPlace } from './own-place.ts'
import type { Refusals } from './refusals.ts'
import { type Directory, exchangeRoster, rosterFrameMaxBytes, rosterProtocol } from './roster-exchange.ts'

/** What a process said of itself in its last exchange. */
export interface Applied {
  /** The version of each issuer's list of what was revoked. */
  readonly revocations: ReadonlyMap<string, number>
  /** The serial of its own machine's membership, as its roster has it. */
  readonly ownSerial: number
  /** The machines that its roster has. */
  readonly members: ReadonlySet<string>
  /** The serial up to which a machine gave its memberships up, as it has it. */
  readonly departures: ReadonlyMap<string, number>
}

export interface RosterSpreadOptions {
  readonly clock: Clock
  readonly links: MemberLinks
  readonly refusals: Refusals
  readonly place: OwnPlace
}

/** News that come together travel together: the wait before they are passed on, in milliseconds. */
const gatherMs = 50

/** One exchange may take this long before its stream is given up, in milliseconds. */
const exchangeTimeoutMs = 20_000

/**
 * Keeps rosters level with everyone on the line: the dialler begins an exchange after hello, and whoever learns something
 * begins one with every peer. What both have costs one digest each way, so news stops where it is known.
 */
export class RosterSpread {
  readonly #options: RosterSpreadOptions
  readonly #running = new Map<string, Promise<void>>()
  readonly #again = new Set<string>()
  /** By process: what it last said it has applied. */
  readonly #applied = new Map<string, Applied>()
  #timer: Timer | undefined
  #isClosed = false

  constructor(options: RosterSpreadOptions) {
    this.#options = options
  }

  /** The roster has news: every peer on the line gets them soon. */
  announce(): void {
    if (this.#isClosed) return
    this.#timer ??= this.#options.clock.after(gatherMs, () => {
      this.#timer = undefined
      for (const { peerId } of this.#options.links.connected()) this.begin(peerId)
    })
  }

  /** Begins an exchange with a peer; once more where one is running, since that one may not have seen the latest. */
  begin(peerId: string): void {
    if (this.#isClosed) return
    if (this.#running.has(peerId)) {
      this.#again.add(peerId)
      return
    }
    const link = this.#options.links.newest(peerId)
    const own = this.#directory()
    if (link === undefined || own === undefined) return
    // `run` catches everything itself.
    this.#running.set(peerId, this.#run(link, own))
  }

  /** Resolves once no exchange that this side began is under way. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values())
  }

  /** The other side of an exchange that a peer began. */
  async answer(link: MemberLink, stream: Stream): Promise<void> {
    const own = this.#directory()
    const frames = this.#frames(stream)
    if (own === undefined) {
      frames.close()
      return
    }
    await this.#exchange(frames, link, own)
  }

  /** What a connected process last said it has applied; undefined before its first word. */
  appliedBy(peerId: string): Applied | undefined {
    return this.#applied.get(peerId)
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  #directory(): Directory | undefined {
    const { roster, trust } = this.#options.place
    return roster === undefined || trust === undefined ? undefined : { roster, trust }
  }

  async #run(link: MemberLink, own: Directory): Promise<void> {
    const { peerId } = link.facts
    try {
      await this.#exchange(this.#frames(await openStream(link.connection)), link, own)
    } catch {
      // The link went down or the peer does not answer this protocol: the next link or the next news tries again.
    } finally {
      this.#running.delete(peerId)
      if (this.#again.delete(peerId)) this.begin(peerId)
    }
  }

  async #exchange(frames: FrameStream, link: MemberLink, own: Directory): Promise<void> {
    const timer = this.#options.clock.after(exchangeTimeoutMs, () => {
      frames.close(new NfltrError('timed_out', 'The roster exchange took too long.'))
    })
    try {
      await exchangeRoster(frames, own, {
        peer: link.facts,
        onDigest: (digest) => this.#note(link.facts, digest),
        onBadRecord: (error) => this.#options.refusals.addError(error),
      })
      frames.close()
    } catch (error) {
      if (!(error instanceof NfltrError && error.code === 'link_down')) this.#options.refusals.addError(error)
      frames.close(error instanceof Error ? error : new Error(String(error)))
    } finally {
      timer.cancel()
    }
  }

  #note(peer: PeerFacts, digest: RosterDigest): void {
    const own = digest.entries.find((entry) => entry.peerId === peer.machinePeerId)
    this.#applied.set(peer.peerId, {
      revocations: new Map(digest.revocationVersions.map(({ issuerId, version }) => [issuerId, version])),
      ownSerial: own?.serial ?? 0,
      members: new Set(digest.entries.filter(({ serial }) => serial > 0).map(({ peerId }) => peerId)),
      departures: new Map(
        digest.entries.flatMap(({ peerId, departedSerial }) =>
          departedSerial === undefined ? [] : [[peerId, departedSerial] as const],
        ),
      ),
    })
    for (const known of this.#applied.keys()) {
      if (this.#options.links.newest(known) === undefined) this.#applied.delete(known)
    }
  }

  #frames(stream: Stream): FrameStream {
    return new FrameStream(stream, { clock: this.#options.clock, frameMaxBytes: rosterFrameMaxBytes })
  }
}

function openStream(connection: Connection): Promise<Stream> {
  return connection.newStream(rosterProtocol)
}
