import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { NfltrError } from '../core/errors.ts'
import { writeWhole } from './store-files.ts'

/** So many deaths within this span, in milliseconds, keep a process down (rule 39). */
const storm = { deaths: 3, spanMs: 60_000 } as const
/** After so long a process that nobody watches is let try once more, in milliseconds. */
export const stormPauseMs = 10 * 60_000
const reasonMaxCharacters = 500

interface Death {
  /** Wall clock. */
  readonly atMs: number
  readonly reason: string
}

interface Starts {
  readonly deaths: readonly Death[]
  /** The run that has not ended, as far as this file was told. */
  readonly open?: { readonly atMs: number; readonly isReady: boolean }
}

export interface RestartGuardOptions {
  readonly wallMs: () => number
  /** A person asked for this very start: it is tried whatever came before. */
  readonly isAskedFor: boolean
  /** What a person runs to try once more. */
  readonly command: string
}

/**
 * Keeps a process down that dies as often as it is started (rule 39): a store that kills whoever opens it would otherwise be
 * opened for ever by what restarts it. Counted are runs that ended with a failure of their own, and runs that ended before
 * they were ready; one that was serving and was killed has nothing to do with its store.
 */
export class RestartGuard {
  readonly #path: string
  readonly #options: RestartGuardOptions
  #deaths: readonly Death[]

  private constructor(path: string, options: RestartGuardOptions, deaths: readonly Death[]) {
    this.#path = path
    this.#options = options
    this.#deaths = deaths
  }

  /**
   * Notes a start. Called by whoever holds the store.
   *
   * @throws {NfltrError} `restart_storm` with the last reason, where it died too often to be tried again
   */
  static begin(dir: string, options: RestartGuardOptions): RestartGuard {
    const path = join(dir, 'starts.json')
    const { deaths, open } = read(path)
    const unready: readonly Death[] =
      open !== undefined && !open.isReady ? [{ atMs: open.atMs, reason: 'It ended before it was ready.' }] : []
    const guard = new RestartGuard(
      path,
      options,
      options.isAskedFor ? [] : [...deaths, ...unready].slice(-storm.deaths),
    )
    try {
      guard.#assertCalm()
    } catch (error) {
      guard.#write({})
      throw error
    }
    guard.#write({ open: { atMs: options.wallMs(), isReady: false } })
    return guard
  }

  /** It serves: what ends it from now on without a word came from outside. */
  ready(): void {
    this.#note({ open: { atMs: this.#options.wallMs(), isReady: true } })
  }

  /** It ends as it was asked to. */
  ended(): void {
    this.#deaths = []
    this.#note({})
  }

  /** It was refused something, and says so itself: neither a death nor an orderly end. */
  refused(): void {
    this.#note({})
  }

  /** It ends with a failure. */
  died(reason: string): void {
    const death: Death = { atMs: this.#options.wallMs(), reason: reason.slice(0, reasonMaxCharacters) }
    this.#deaths = [...this.#deaths, death].slice(-storm.deaths)
    this.#note({})
  }

  #assertCalm(): void {
    const [first] = this.#deaths
    const last = this.#deaths.at(-1)
    if (first === undefined || last === undefined || this.#deaths.length < storm.deaths) return
    const nowMs = this.#options.wallMs()
    if (last.atMs - first.atMs > storm.spanMs || nowMs - last.atMs > stormPauseMs) return
    const span = Math.round((last.atMs - first.atMs) / 1_000)
    throw new NfltrError(
      'restart_storm',
      `It died ${storm.deaths} times within ${span} s. The last time: ${last.reason}`,
      {
        hint: `It stays down. Once the reason is gone, start it with: ${this.#options.command}`,
        details: { deaths: this.#deaths.map(({ atMs, reason }) => ({ at: new Date(atMs).toISOString(), reason })) },
      },
    )
  }

  /** A disk that does not take it (it may be why the process ends) must not speak in place of the reason. */
  #note(more: Pick<Starts, 'open'>): void {
    try {
      this.#write(more)
    } catch {
      // One run is not counted.
    }
  }

  #write(more: Pick<Starts, 'open'>): void {
    writeWhole(this.#path, { deaths: this.#deaths, ...more } satisfies Starts)
  }
}

/** What the file says; nothing where there is none, or it cannot be understood: a start is never refused for that. */
function read(path: string): Starts {
  try {
    const found = JSON.parse(readFileSync(path, 'utf8')) as Partial<Starts>
    const deaths = Array.isArray(found.deaths) ? found.deaths.filter(isDeath) : []
    const { open } = found
    const isOpen = typeof open === 'object' && typeof open.atMs === 'number' && typeof open.isReady === 'boolean'
    return isOpen ? { deaths, open } : { deaths }
  } catch {
    return { deaths: [] }
  }
}

function isDeath(value: unknown): value is Death {
  const { atMs, reason } = (value ?? {}) as Partial<Record<keyof Death, unknown>>
  return typeof atMs === 'number' && typeof reason === 'string'
}
