import type { Multiaddr } from '@multiformats/multiaddr'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Lan, LanChannel, LanInterface, LanPacket } from '../ports/lan.ts'
import type { Random } from '../ports/random.ts'
import { hostOf, withoutPeerId } from './addresses.ts'
import { LanHints } from './lan-hints.ts'
import { decodeLan, encodeAnswer, encodeQuestion, mayBeOurs } from './lan-packets.ts'

export interface LanDiscoveryOptions {
  /** Absent: members on the local network are neither asked for nor answered. */
  readonly lan: Lan | undefined
  readonly clock: Clock
  readonly random: Random
  readonly ownPeerId: string
  /** Where this process listens, loopback included; empty for one that nobody should look for. */
  readonly listening: () => readonly Multiaddr[]
  /** Whether a PeerId is that of a process of the mesh: nothing else is remembered or dialled. */
  readonly isKnown: (peerId: string) => boolean
  /** A known peer is somewhere that was not heard before. */
  readonly onHint: (peerId: string) => void
}

/** What `node status` and `doctor` say of it. */
export interface LanStatus {
  readonly state: 'on' | 'off' | 'unavailable'
  /** Names of the interfaces that are asked on, loopback left out. */
  readonly interfaces: readonly string[]
  /** Why it is unavailable, or what is missing all the same. */
  readonly reason?: string
}

/** An answer goes out this long after its question at the earliest, and once in this time, in milliseconds (RFC 6762). */
const answerDelayMs = 20
const answerJitterMs = 100
const answerEveryMs = 1_000

/** What was said at the start is said once more, since packets get lost, after this time in milliseconds. */
const repeatMs = 1_000

/** The shortest and the longest time between two questions, in milliseconds; each that finds nobody doubles it. */
const askFirstMs = 1_000
const askCapMs = 60_000

/** Packets about the service that are read in one second; more is a flood, and dropped unread. */
const packetsPerSecond = 100

/** What is sent comes back to its sender within this time, in milliseconds, or multicast does not work here. */
const echoMs = 1_000

/**
 * Finds members on the local network by multicast DNS. It says where this process listens, on each interface only what listens
 * there, when it starts, when its addresses change and when asked; it asks when somebody is missing, and never else. What it
 * hears is a hint. Where multicast is missing it does nothing and says so when asked for its status.
 */
export class LanDiscovery {
  readonly hints = new LanHints()
  readonly #options: LanDiscoveryOptions
  readonly #timers = new Set<Timer>()
  #channel: LanChannel | undefined
  #interfaces: readonly LanInterface[] = []
  #reason: string | undefined
  #isClosed = false
  #answer: Timer | undefined
  #answeredAtMs = Number.NEGATIVE_INFINITY
  #askedAtMs = Number.NEGATIVE_INFINITY
  #askAgainMs = askFirstMs
  #window = { startMs: 0, packets: 0 }
  /** The last packets of ours, to know them when they come back. */
  readonly #sent = new Set<string>()
  #firstSentAtMs: number | undefined
  #hasHeardItself = false
  #hasRoute = true

  constructor(options: LanDiscoveryOptions) {
    this.#options = options
  }

  /** Begins; never fails: what is missing shows in `status`. */
  async start(): Promise<void> {
    const { lan } = this.#options
    if (lan === undefined || this.#channel !== undefined || this.#isClosed) return
    try {
      const channel = await lan.open((packet) => this.#onPacket(packet))
      this.#hasRoute = await channel.hasRoute()
      if (this.#isClosed) {
        await channel.close()
        return
      }
      this.#channel = channel
      this.#sayWhereAndAsk()
    } catch (error) {
      this.#reason = `the port of multicast DNS cannot be had (${codeOf(error)})`
    }
  }

  /** Own addresses, or the machine's interfaces, changed: others hear of it, and whoever is missing is asked for again. */
  refresh(): void {
    if (this.#channel === undefined) return
    this.#askAgainMs = askFirstMs
    this.#sayWhereAndAsk()
  }

  /** Somebody is missing. Asks unless that was done lately. */
  ask(): void {
    if (this.#channel === undefined) return
    const nowMs = this.#options.clock.nowMs()
    if (nowMs - this.#askedAtMs < this.#askAgainMs) return
    this.#askAgainMs = Math.min(askCapMs, this.#askAgainMs * 2)
    this.#askNow()
  }

  status(): LanStatus {
    const interfaces = [...new Set(this.#interfaces.filter(({ isLoopback }) => !isLoopback).map(({ name }) => name))]
    if (this.#options.lan === undefined) return { state: 'off', interfaces: [] }
    const unavailable = (reason: string): LanStatus => ({ state: 'unavailable', interfaces, reason })
    if (this.#reason !== undefined) return unavailable(this.#reason)
    if (this.#channel === undefined) return unavailable('it has not begun yet')
    if (interfaces.length === 0) return unavailable('no network interface but loopback takes part in multicast')
    const silentMs = this.#options.clock.nowMs() - (this.#firstSentAtMs ?? Number.POSITIVE_INFINITY)
    if (!this.#hasHeardItself && silentMs > echoMs)
      return unavailable('nothing that is sent to the group comes back; a firewall may drop it')
    if (this.#hasRoute) return { state: 'on', interfaces }
    return { state: 'on', interfaces, reason: 'no route for multicast; each interface is asked on by itself' }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#answer?.cancel()
    for (const timer of this.#timers) timer.cancel()
    await this.#channel?.close()
  }

  #sayWhereAndAsk(): void {
    const say = (): void => {
      this.#sayWhere()
      this.#askNow()
    }
    say()
    this.#later(repeatMs, say)
  }

  #askNow(): void {
    this.#askedAtMs = this.#options.clock.nowMs()
    const question = encodeQuestion()
    for (const one of this.#refreshed()) this.#send(question, one)
  }

  #sayWhere(): void {
    const { ownPeerId, clock } = this.#options
    this.#answeredAtMs = clock.nowMs()
    const listening = this.#options.listening()
    for (const one of this.#refreshed()) {
      const here = listening.filter((address) => hostOf(address) === one.address).map(withoutPeerId)
      if (here.length > 0) this.#send(encodeAnswer(ownPeerId, here), one)
    }
  }

  #refreshed(): readonly LanInterface[] {
    this.#interfaces = this.#channel?.interfaces() ?? []
    return this.#interfaces
  }

  #send(bytes: Uint8Array, on: LanInterface): void {
    if (!on.isLoopback) {
      this.#firstSentAtMs ??= this.#options.clock.nowMs()
      if (!this.#hasHeardItself) this.#sent.add(keyOf(bytes, on.address))
    }
    // An interface that went down, or may not send: the others may, and status tells when none does.
    this.#channel?.send(bytes, on).catch(() => undefined)
  }

  #onPacket({ bytes, from }: LanPacket): void {
    if (this.#isClosed || !mayBeOurs(bytes) || this.#isFlooded()) return
    if (!this.#hasHeardItself && this.#sent.has(keyOf(bytes, from))) {
      this.#hasHeardItself = true
      this.#sent.clear()
    }
    const message = decodeLan(bytes, from)
    if (message?.type === 'question') this.#answerSoon()
    if (message?.type === 'answer') this.#onAnswer(message, from)
  }

  #onAnswer(answer: { readonly peerId: string; readonly addresses: readonly string[] }, from: string): void {
    const { ownPeerId, isKnown, clock, onHint } = this.#options
    const { peerId, addresses } = answer
    if (peerId === ownPeerId || !isKnown(peerId)) return
    if (this.hints.hear(peerId, { host: from, addresses, nowMs: clock.nowMs() })) onHint(peerId)
  }

  /** One answer serves all who asked meanwhile. */
  #answerSoon(): void {
    if (this.#answer !== undefined || this.#options.listening().length === 0) return
    const { clock, random } = this.#options
    const restMs = this.#answeredAtMs + answerEveryMs - clock.nowMs()
    this.#answer = clock.after(Math.max(restMs, answerDelayMs + random.next() * answerJitterMs), () => {
      this.#answer = undefined
      this.#sayWhere()
    })
  }

  #isFlooded(): boolean {
    const nowMs = this.#options.clock.nowMs()
    if (nowMs - this.#window.startMs >= 1_000) this.#window = { startMs: nowMs, packets: 0 }
    this.#window.packets += 1
    return this.#window.packets > packetsPerSecond
  }

  #later(delayMs: number, work: () => void): void {
    const timer = this.#options.clock.after(delayMs, () => {
      this.#timers.delete(timer)
      work()
    })
    this.#timers.add(timer)
  }
}

function keyOf(bytes: Uint8Array, address: string): string {
  return `${address} ${Buffer.from(bytes).toString('base64')}`
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}
