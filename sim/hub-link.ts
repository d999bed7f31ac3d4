import { NfltrError } from '../src/core/errors.ts'
import type { Hub } from '../src/hub/hub.ts'
import type { Hold, SessionIdentity } from '../src/ports/hub-api.ts'
import type { HubProcess } from './hub-process.ts'
import type { Life } from './life.ts'
import type { SeededRandom } from './random.ts'

/** How often one call is repeated under its key when hubs die under it: as the adapter does. */
const repeatsMax = 5

/** A request on its way; empty once it was answered. */
interface Asked {
  fail: (() => void) | undefined
  gone: AbortController | undefined
}

/**
 * The adapter's way to its hub: a local socket that ends with either side. The hub is started where none runs; a call that
 * lost its hub is repeated under its key.
 */
export class HubLink {
  readonly #hub: HubProcess
  readonly #life: Life
  readonly #random: SeededRandom
  readonly #session: SessionIdentity
  #heldBy: Life | undefined

  constructor(
    hub: HubProcess,
    options: { readonly life: Life; readonly random: SeededRandom; readonly session: SessionIdentity },
  ) {
    this.#hub = hub
    this.#life = options.life
    this.#random = options.random
    this.#session = options.session
  }

  /**
   * Carries one request to a hub that this session holds.
   *
   * @param work is given a signal that aborts when the client cancelled or the adapter is gone
   * @throws {NfltrError} what the hub refused with; `link_down` when hubs kept dying
   */
  async request<T>(work: (hub: Hub, gone: AbortSignal) => Promise<T>, cancelled?: AbortSignal): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#hold()
        return await this.#send(work, cancelled)
      } catch (error) {
        const isHubGone = error instanceof NfltrError && error.code === 'link_down'
        if (cancelled?.aborted === true || attempt === repeatsMax || !isHubGone) throw error
      }
    }
  }

  /** The session takes the hub, as often as there is a new one. */
  async #hold(): Promise<void> {
    const life = await this.#reach()
    if (this.#heldBy === life) return
    await this.#send(async (hub) => this.#releaseAtDeath(life, await hub.hold(this.#session)))
    this.#heldBy = life
  }

  /** The hub sees the connection of a dead adapter end, be it before the adapter heard that it holds the hub. */
  #releaseAtDeath(hubLife: Life, hold: Hold): void {
    // Where its store fails meanwhile the hub ends, and there is nobody left to be told.
    const release = (): void => hubLife.after(this.#trip(), () => void hold.release().catch(onlyRefused))
    if (this.#life.isAlive) this.#life.onDeath(release)
    else release()
  }

  async #reach(): Promise<Life> {
    for (;;) {
      const { life } = this.#hub
      if (life?.isAlive === true && this.#hub.hub !== undefined) return life
      if (!this.#hub.isUp) this.#hub.start()
      await this.#life.delayed(5 + this.#random.next() * 100, () => undefined)
    }
  }

  #send<T>(work: (hub: Hub, gone: AbortSignal) => Promise<T>, cancelled?: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#life.after(this.#trip(), () => {
        const { hub, life } = this.#hub
        if (hub === undefined || life?.isAlive !== true) return reject(hubGone())
        const gone = new AbortController()
        const asked: Asked = { fail: () => reject(hubGone()), gone }
        this.#watch(asked, life, cancelled)
        const back = (deliver: () => void): void =>
          this.#back(life, () => {
            asked.fail = undefined
            asked.gone = undefined
            deliver()
          })
        life.reach(() => {
          work(hub, gone.signal).then(
            (value) => back(() => resolve(value)),
            (error: unknown) => back(() => reject(error instanceof Error ? error : new Error(String(error)))),
          )
        })
      })
    })
  }

  /** Each side sees the other end. Both lives remember it for as long as they last, and so it holds next to nothing itself. */
  #watch(asked: Asked, hubLife: Life, cancelled: AbortSignal | undefined): void {
    const leave = (): void => hubLife.after(this.#trip(), () => asked.gone?.abort())
    this.#life.onDeath(leave)
    cancelled?.addEventListener('abort', leave, { once: true })
    cancelled?.addEventListener('abort', () => asked.fail?.(), { once: true })
    hubLife.onDeath(() => this.#life.after(this.#trip(), () => asked.fail?.()))
  }

  /** An answer that is written into the socket may still be lost with its hub. */
  #back(hubLife: Life, deliver: () => void): void {
    if (!hubLife.act()) return
    this.#life.after(this.#trip(), deliver)
  }

  #trip(): number {
    return 0.05 + this.#random.next() * 3
  }
}

function onlyRefused(error: unknown): void {
  if (!(error instanceof NfltrError)) throw error
}

function hubGone(): NfltrError {
  return new NfltrError('link_down', 'The hub went away before it answered.')
}
