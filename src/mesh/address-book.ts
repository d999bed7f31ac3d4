import type { Multiaddr } from '@multiformats/multiaddr'
import { limits } from '../core/limits.ts'
import type { Clock } from '../ports/clock.ts'
import type { AnsweredRecord, MeshFiles } from '../ports/home.ts'
import { dialRank, parsePeerAddress, withoutPeerId, withPeerId } from './addresses.ts'
import type { LanHints } from './lan-hints.ts'

export interface AddressBookOptions {
  readonly files: Pick<MeshFiles, 'answered' | 'saveAnswered'>
  readonly clock: Clock
  /** What was heard on the local network. */
  readonly hints: LanHints
}

/** Addresses of one process that are remembered; the one that answered longest ago goes first. */
const answeredPerPeerMax = 4

/** An address that goes on answering is written again after this time, in milliseconds, and no sooner. */
const writeAgainMs = 24 * 3_600_000

/** Where an address comes from, best first. */
const sources = ['answered', 'heard', 'told'] as const
type Source = (typeof sources)[number]

interface Candidate {
  readonly text: string
  readonly source: Source
}

/**
 * At which addresses processes really answered, kept in the home; from there, from the local network and from what members say
 * of themselves comes the order in which a peer's addresses are tried.
 */
export class AddressBook {
  readonly #options: AddressBookOptions
  readonly #answered = new Map<string, AnsweredRecord>()
  #tail: Promise<unknown> = Promise.resolve()

  constructor(options: AddressBookOptions) {
    this.#options = options
  }

  /** Reads what the home has; what other processes of the home learn later counts from their next start on. */
  async load(): Promise<void> {
    for (const record of await this.#options.files.answered()) this.#answered.set(record.peerId, record)
  }

  /** A process was reached at an address and passed hello. */
  noteAnswered(peerId: string, address: Multiaddr): void {
    const text = withoutPeerId(address)
    if (!isDialable(text)) return
    const atMs = this.#options.clock.wallMs()
    const before = this.#answered.get(peerId)?.addresses ?? []
    const [newest] = before
    if (newest?.address === text && Math.abs(atMs - newest.atMs) < writeAgainMs) return
    const addresses = [{ address: text, atMs }, ...before.filter((one) => one.address !== text)]
    const record = { peerId, addresses: addresses.slice(0, answeredPerPeerMax) }
    this.#answered.set(peerId, record)
    // A disk that refuses shows itself elsewhere; the address is known here until the process ends.
    this.#tail = this.#tail.then(() => this.#options.files.saveAnswered(record)).catch(() => undefined)
  }

  /**
   * Where to try a process, best first: this machine, then private networks, then the rest, TCP before WebSockets; among equals
   * what answered before, then what was heard on the network, then what the process said of itself.
   *
   * @param told - addresses of the process's own record, or given by a person
   */
  candidates(peerId: string, told: readonly string[]): readonly Multiaddr[] {
    const heard = this.#options.hints.addressesOf(peerId, this.#options.clock.nowMs())
    const all: readonly Candidate[] = [
      ...(this.#answered.get(peerId)?.addresses ?? []).map(({ address }) => ({ text: address, source: sources[0] })),
      ...heard.map((text) => ({ text, source: sources[1] })),
      ...told.map((text) => ({ text, source: sources[2] })),
    ]
    const seen = new Set<string>()
    return all
      .flatMap(({ text, source }) => {
        const address = readable(text)
        const key = address === undefined ? '' : withoutPeerId(address)
        if (address === undefined || seen.has(key)) return []
        seen.add(key)
        return [{ address: withPeerId(key, peerId), source }]
      })
      .sort((a, b) => compare(rankOf(a), rankOf(b)))
      .slice(0, limits.addressesMax)
      .map(({ address }) => address)
  }

  /** Nobody answered at an address of a peer, or, where `isLie`, somebody else. */
  noteFailed(address: Multiaddr, of: { readonly peerId: string; readonly isLie: boolean }): void {
    const { hints, clock } = this.#options
    hints.forget(of.peerId, withoutPeerId(address), { nowMs: clock.nowMs(), isLie: of.isLie })
  }

  /** Resolves once what was learnt is on disk. */
  async close(): Promise<void> {
    await this.#tail
  }
}

function rankOf({ address, source }: { readonly address: Multiaddr; readonly source: Source }): readonly number[] {
  return [dialRank(address), sources.indexOf(source)]
}

/** The first that differs decides; equals keep their order. */
function compare(a: readonly number[], b: readonly number[]): number {
  for (const [index, rank] of a.entries()) {
    const difference = rank - (b[index] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

function isDialable(text: string): boolean {
  return readable(text) !== undefined
}

/** What members and networks say may be anything. */
function readable(text: string): Multiaddr | undefined {
  try {
    return parsePeerAddress(text)
  } catch {
    return undefined
  }
}
