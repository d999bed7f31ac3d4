/** What a process took, to be let go in the opposite order; one failure does not keep the rest. */
export class Teardown {
  readonly #steps: (() => Promise<void>)[] = []

  add(step: () => Promise<void>): void {
    this.#steps.push(step)
  }

  async run(): Promise<void> {
    for (const step of this.#steps.splice(0).reverse()) await step().catch(() => undefined)
  }
}
