import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Random } from '../ports/random.ts'

/** A peer that should be connected for as long as it is wanted. */
export interface Target {
  /** Unique among the targets of one keeper. */
  readonly key: string
  readonly isReached: () => boolean
  /** Changes when better addresses may be known; then it is tried at once again. */
  readonly version?: () => number
  /** The longest wait between two attempts, where it is another than `limits.redialCapMs`. */
  readonly capMs?: number
  /** One attempt over every address known now. @throws {NfltrError} saying which were tried */
  readonly connect: (signal: AbortSignal) => Promise<void>
}

/** A link that lived this long was a good one: the next loss is redialled at once again. In milliseconds. */
const stableAfterMs = 5_000

interface Wanted {
  readonly target: Target
  attempt: number
  reachedAtMs: number | undefined
  isDialling: boolean
  timer: Timer | undefined
  lastError: NfltrError | undefined
  version: number
}

/**
 * Keeps the wanted links up. After a loss the first attempt comes within 100 ms; later ones wait twice as long each, up to a
 * cap, with full jitter, so that a fleet that lost the same hub does not come back in lockstep. Either side may do this
 * for the same pair: a target that is connected, whoever dialled, is left alone.
 */
export class LinkKeeper {
  readonly #clock: Clock
  readonly #random: Random
  readonly #wanted = new Map<string, Wanted>()
  readonly #stopping = new AbortController()

  constructor(options: { readonly clock: Clock; readonly random: Random }) {
    this.#clock = options.clock
    this.#random = options.random
  }

  has(key: string): boolean {
    return this.#wanted.has(key)
  }

  /** Dials now unless it is reached or being dialled, and from now on whenever it is not. */
  want(target: Target): void {
    if (this.#stopping.signal.aborted) return
    const known = this.#wanted.get(target.key)
    if (known !== undefined) {
      this.#dialSoon(known, 0)
      return
    }
    const wanted: Wanted = {
      target,
      attempt: 0,
      reachedAtMs: undefined,
      isDialling: false,
      timer: undefined,
      lastError: undefined,
      version: target.version?.() ?? 0,
    }
    this.#wanted.set(target.key, wanted)
    this.#dialSoon(wanted, 0)
  }

  unwant(key: string): void {
    this.#wanted.get(key)?.timer?.cancel()
    this.#wanted.delete(key)
  }

  /** Something changed: a link came or went, or new addresses are known. Looks at every target again. */
  review(): void {
    for (const wanted of this.#wanted.values()) this.#reviewOne(wanted)
  }

  /** Why the last attempt at a target failed; undefined when it is reached or was not tried. */
  lastErrorOf(key: string): NfltrError | undefined {
    return this.#wanted.get(key)?.lastError
  }

  close(): void {
    this.#stopping.abort()
    for (const key of [...this.#wanted.keys()]) this.unwant(key)
  }

  #reviewOne(wanted: Wanted): void {
    if (wanted.target.isReached()) {
      wanted.reachedAtMs ??= this.#clock.nowMs()
      wanted.lastError = undefined
      wanted.timer?.cancel()
      wanted.timer = undefined
      return
    }
    if (wanted.reachedAtMs !== undefined) {
      const livedMs = this.#clock.nowMs() - wanted.reachedAtMs
      wanted.reachedAtMs = undefined
      if (livedMs >= stableAfterMs) wanted.attempt = 0
    }
    const version = wanted.target.version?.() ?? 0
    if (version !== wanted.version && !isRefusal(wanted.lastError)) {
      wanted.attempt = 0
      wanted.timer?.cancel()
      wanted.timer = undefined
    }
    wanted.version = version
    if (!wanted.isDialling && wanted.timer === undefined) this.#dialSoon(wanted, this.#nextDelayMs(wanted))
  }

  #dialSoon(wanted: Wanted, delayMs: number): void {
    wanted.timer?.cancel()
    wanted.timer = this.#clock.after(delayMs, () => {
      wanted.timer = undefined
      // An attempt that fails has been told to the target; nothing of it is left to reject.
      void this.#dial(wanted)
    })
  }

  async #dial(wanted: Wanted): Promise<void> {
    if (this.#isOver(wanted) || wanted.isDialling) return
    if (wanted.target.isReached()) {
      this.#reviewOne(wanted)
      return
    }
    wanted.isDialling = true
    try {
      await wanted.target.connect(this.#stopping.signal)
      wanted.lastError = undefined
    } catch (error) {
      wanted.lastError =
        error instanceof NfltrError ? error : new NfltrError('unreachable', String(error), { cause: error })
    }
    wanted.isDialling = false
    if (!this.#isOver(wanted)) this.#reviewOne(wanted)
  }

  #isOver(wanted: Wanted): boolean {
    return this.#stopping.signal.aborted || this.#wanted.get(wanted.target.key) !== wanted
  }

  #nextDelayMs(wanted: Wanted): number {
    const attempt = wanted.attempt
    wanted.attempt += 1
    const delayMs = backoffMs(attempt, this.#random, wanted.target.capMs)
    // Who refused us, or was refused, is turned away for a while on the other side; asking sooner changes nothing.
    return isRefusal(wanted.lastError) ? limits.refusedPeerPauseMs + delayMs : delayMs
  }
}

function isRefusal(error: NfltrError | undefined): boolean {
  return error?.details['refused'] === true
}

/**
 * The wait before retry number `attempt`, 0 for the first: exponential, with full jitter.
 *
 * @returns milliseconds in [0, min(`capMs`, `redialFirstMs` · 2^attempt))
 */
export function backoffMs(attempt: number, random: Random, capMs: number = limits.redialCapMs): number {
  const ceilingMs = Math.min(capMs, limits.redialFirstMs * 2 ** Math.min(attempt, 30))
  return random.next() * ceilingMs
}
