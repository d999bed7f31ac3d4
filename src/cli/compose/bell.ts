/** Wakes one waiter: rung by whoever saw something change, and by itself after a while. */
export class Bell {
  #wake: (() => void) | undefined
  #isRung = false

  ring(): void {
    this.#isRung = true
    this.#wake?.()
  }

  /** Resolves at the next ring (also one that came before), or after `atLatestMs`. */
  async rung(atLatestMs: number): Promise<void> {
    if (!this.#isRung) {
      let timer: NodeJS.Timeout | undefined
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        timer = setTimeout(resolve, atLatestMs)
      })
      clearTimeout(timer)
      this.#wake = undefined
    }
    this.#isRung = false
  }
}
