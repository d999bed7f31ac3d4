import type { Multiaddr } from '@multiformats/multiaddr'
import type { Clock, Timer } from '../ports/clock.ts'

export interface OwnAddressesOptions {
  readonly clock: Clock
  /** Where others can reach this process now. */
  readonly read: () => readonly Multiaddr[]
  readonly onChange: (addresses: readonly Multiaddr[]) => void
}

/** The longest that a change of an interface goes unseen, in milliseconds. Node has no event for it; a look costs 0.2 ms. */
const lookEveryMs = 5_000

/** Notices that this machine has other addresses than before: another network, a new lease, a cable. */
export class OwnAddresses {
  readonly #options: OwnAddressesOptions
  #timer: Timer | undefined
  #known = ''

  constructor(options: OwnAddressesOptions) {
    this.#options = options
  }

  start(): void {
    if (this.#timer !== undefined) return
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
    this.#timer = this.#options.clock.after(lookEveryMs, () => {
      this.look()
      this.#arm()
    })
  }
}

function textOf(addresses: readonly Multiaddr[]): string {
  return addresses
    .map((address) => address.toString())
    .sort()
    .join(' ')
}
