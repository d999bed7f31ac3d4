import { NfltrError } from '../core/errors.ts'
import type { TurnEffect } from '../ports/agent-driver.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Keeper } from '../ports/keepers.ts'

/** What a driver may ask of a keeper. Each may be asked twice: the keeper does it once. */
export type KeeperAction = Extract<TurnEffect, { type: 'write' | 'answer' | 'close_input' | 'stop_tree' }>

const retryMs = 1_000

/**
 * Carries a driver's actions to the keeper, in order. A stop does not wait behind a write that the program does not read.
 * Where the keeper is gone nothing can be done, and the journal's end tells the driver.
 */
export class KeeperHands {
  readonly #clock: Clock
  #keeper: Keeper
  #queue: Promise<void> = Promise.resolve()
  #isOver = false
  readonly #waiting = new Set<{ timer: Timer; resume: () => void }>()

  constructor(keeper: Keeper, clock: Clock) {
    this.#keeper = keeper
    this.#clock = clock
  }

  /** The same keeper, taken over anew. */
  replace(keeper: Keeper): void {
    this.#keeper = keeper
  }

  act(action: KeeperAction): void {
    if (action.type === 'stop_tree') void this.#carry(action)
    else this.#queue = this.#queue.then(() => this.#carry(action))
  }

  /** Nothing is carried or tried again from now on. */
  end(): void {
    this.#isOver = true
    for (const { timer, resume } of this.#waiting) {
      timer.cancel()
      resume()
    }
    this.#waiting.clear()
  }

  async #carry(action: KeeperAction): Promise<void> {
    while (!this.#isOver) {
      try {
        await perform(this.#keeper, action)
        return
      } catch (error) {
        if (error instanceof NfltrError && error.code === 'keeper_gone') return
        await this.#pause()
      }
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const entry = {
        timer: this.#clock.after(retryMs, () => {
          this.#waiting.delete(entry)
          resolve()
        }),
        resume: resolve,
      }
      this.#waiting.add(entry)
    })
  }
}

function perform(keeper: Keeper, action: KeeperAction): Promise<void> {
  switch (action.type) {
    case 'write':
      return keeper.write({ messageId: action.messageId, bytes: action.bytes })
    case 'answer':
      return keeper.answer({ requestId: action.requestId, bytes: action.bytes })
    case 'close_input':
      return keeper.closeInput()
    case 'stop_tree':
      return keeper.stop({ graceMs: action.graceMs })
  }
}
