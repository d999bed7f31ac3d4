/**
 * What was heard on the local network of where members are: hints, bounded whoever sends how many of them, and forgotten soon.
 * They only say where to knock next; who is there shows in Noise and hello.
 */
interface Hint {
  readonly host: string
  readonly addresses: readonly string[]
  readonly atMs: number
}

/** Machines that may claim one PeerId at once; the oldest claim goes first. */
const hostsPerPeerMax = 4

/** Peers that are remembered; the one unheard of for longest goes first. */
const peersMax = 1_024

/** A hint older than this is no reason to dial, in milliseconds. */
const freshMs = 10 * 60_000

/** An address at which another key answered is not believed again before this, in milliseconds. */
const doubtMs = 30_000
const doubtsMax = 1_024

/** News of one peer that may make somebody dial at once, from one machine and in all, in so many milliseconds. */
const newsPerHostMax = 4
const newsMax = 16
const newsWindowMs = 60_000

export class LanHints {
  readonly #hints = new Map<string, readonly Hint[]>()
  readonly #doubtedUntilMs = new Map<string, number>()
  readonly #news = new Map<
    string,
    { readonly version: number; readonly recent: readonly { readonly host: string; readonly atMs: number }[] }
  >()

  /**
   * Remembers where a peer says it is.
   *
   * @returns whether that is a reason to look at once
   */
  hear(
    peerId: string,
    said: { readonly host: string; readonly addresses: readonly string[]; readonly nowMs: number },
  ): boolean {
    const { host, nowMs } = said
    const addresses = said.addresses.filter((address) => !this.#isDoubted(peerId, address, nowMs))
    if (addresses.length === 0) return false
    const others = (this.#hints.get(peerId) ?? []).filter((hint) => hint.host !== host)
    const before = this.#hints.get(peerId)?.find((hint) => hint.host === host)
    this.#hints.delete(peerId)
    this.#hints.set(peerId, [{ host, addresses, atMs: nowMs }, ...others].slice(0, hostsPerPeerMax))
    forgetOldest(this.#hints, peersMax)
    const isNew = addresses.some((address) => before?.addresses.includes(address) !== true)
    return isNew && this.#countNews(peerId, { host, atMs: nowMs })
  }

  /** Where a peer may be, newest hint first. */
  addressesOf(peerId: string, nowMs: number): readonly string[] {
    return (this.#hints.get(peerId) ?? [])
      .filter(({ atMs }) => nowMs - atMs <= freshMs)
      .flatMap(({ addresses }) => addresses)
  }

  /** Changes with each piece of news that is a reason to look at once. */
  versionOf(peerId: string): number {
    return this.#news.get(peerId)?.version ?? 0
  }

  /** Nobody answered at an address, or, where `isLie`, somebody else. */
  forget(peerId: string, address: string, options: { readonly nowMs: number; readonly isLie: boolean }): void {
    const hints = this.#hints.get(peerId)
    if (hints?.some(({ addresses }) => addresses.includes(address)) !== true) return
    const left = hints
      .map((hint) => ({ ...hint, addresses: hint.addresses.filter((other) => other !== address) }))
      .filter(({ addresses }) => addresses.length > 0)
    if (left.length === 0) this.#hints.delete(peerId)
    else this.#hints.set(peerId, left)
    if (!options.isLie) return
    this.#doubtedUntilMs.set(`${peerId} ${address}`, options.nowMs + doubtMs)
    forgetOldest(this.#doubtedUntilMs, doubtsMax)
  }

  #isDoubted(peerId: string, address: string, nowMs: number): boolean {
    return (this.#doubtedUntilMs.get(`${peerId} ${address}`) ?? 0) > nowMs
  }

  #countNews(peerId: string, news: { readonly host: string; readonly atMs: number }): boolean {
    const { version = 0, recent: before = [] } = this.#news.get(peerId) ?? {}
    const recent = before.filter(({ atMs }) => news.atMs - atMs < newsWindowMs)
    const ofHost = recent.filter(({ host }) => host === news.host).length
    if (recent.length >= newsMax || ofHost >= newsPerHostMax) return false
    this.#news.delete(peerId)
    this.#news.set(peerId, { version: version + 1, recent: [...recent, news] })
    forgetOldest(this.#news, peersMax)
    return true
  }
}

function forgetOldest(map: Map<string, unknown>, max: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= max) return
    map.delete(oldest)
  }
}
