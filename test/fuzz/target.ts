import type { SeededRandom } from '../../sim/random.ts'
import { NfltrError } from '../../src/core/errors.ts'

/** Something that takes what strangers and peers send. */
export interface Target {
  readonly kind: string
  /** How much of a campaign goes to it, beside the shares of the others. */
  readonly share: number
  open(random: SeededRandom): Promise<OpenTarget>
}

export interface OpenTarget {
  /**
   * Gives it one input.
   *
   * @returns `taken`, or the code of the typed refusal
   * @throws {Crash} when it did anything else
   */
  try(random: SeededRandom): Promise<string>
  close(): Promise<void>
}

/** An input that was answered with something else than a typed refusal. */
export class Crash extends Error {
  readonly input: string
  constructor(input: Uint8Array | string, cause: unknown) {
    super(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause))
    this.input = typeof input === 'string' ? input : Buffer.from(input).toString('hex')
  }
}

/** What became of an input: `taken`, or the code with which it was refused. @throws {Crash} */
export async function verdictOn(input: Uint8Array | string, work: () => unknown): Promise<string> {
  try {
    await work()
    return 'taken'
  } catch (thrown) {
    // A bug that was caught somewhere and made into an error of ours is a bug.
    if (thrown instanceof NfltrError && thrown.code !== 'internal') return thrown.code
    throw new Crash(input, thrown)
  }
}
