import type { Multiaddr } from '@multiformats/multiaddr'
import type { Clock, Timer } from '../ports/clock.ts'

export interface OwnAddressesOptions {
  readonly clock: Clock
  /** Where others can reach this process now. */
  readonly read: () => readonly Multiaddr[]
  readonly onChange: (addresses: readonly Multiaddr[]) => void
  /** The system's interfaces, as a text that changes with them. Absent: every look reads. */
  readonly interfaces?: () => string
}

/** The longest that a change of an interface goes unseen, in milliseconds. Node has no event for it. */
const lookEveryMs = 5_000

/** A timer may be this early, in milliseconds, and must not be set again for the rest. */
const earlyMs = 2

/**
 * Notices that this machine has other addresses than before: another network, a new lease, a cable. It looks as long as the process
 * lives, so a look asks the system alone; what libp2p makes of the answer takes ten times as long, and most of what an idle process
 * would do at all.
 */
export class OwnAddresses {
  readonly #options: OwnAddressesOptions
  #timer: Timer | undefined
  #known = ''
  #interfaces: string | undefined

  constructor(options: OwnAddressesOptions) {
    this.#options = options
  }

  start(): void {
    if (this.#timer !== undefined) return
    this.#interfaces = this.#options.interfaces?.()
    this.#known = textOf(this.#options.read())
    this.#arm()
  }

  /** Looks now. */
  look(): void {
    const addresses = this.#options.read()
    const text = textOf(addresses)
    if (text === this.#known) return
    this.#known = text
    this.#options.onChange(addresses)
  }

  close(): void {
    this.#timer?.cancel()
  }

  #arm(): void {
    const { clock } = this.#options
    // On the beat of the clock, so that a process with two places in the mesh wakes once for both.
    const leftMs = lookEveryMs - (clock.nowMs() % lookEveryMs)
    this.#timer = clock.after(leftMs < earlyMs ? leftMs + lookEveryMs : leftMs, () => {
      if (this.#hasMoved()) this.look()
      this.#arm()
    })
  }

  #hasMoved(): boolean {
    const { interfaces } = this.#options
    if (interfaces === undefined) return true
    const before = this.#interfaces
    this.#interfaces = interfaces()
    return this.#interfaces !== before
  }
}

function textOf(addresses: readonly Multiaddr[]): string {
  return addresses
    .map((address) => address.toString())
    .sort()
    .join(' ')
}
