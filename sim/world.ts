import { allChecks } from '../src/audit/all-checks.ts'
import { Audit } from '../src/audit/check.ts'
import type { AuditEvent } from '../src/audit/events.ts'
import { hashText, SeededRandom } from './random.ts'
import { Schedule, type Scheduled } from './schedule.ts'

export interface Violation {
  readonly checker: string
  readonly atMs: number
  readonly message: string
}

/** Events of one instant: more of them are a loop that no time passes in. */
const instantStepsMax = 10_000

/** Lines of the trace that are kept for the message of a failure. */
const traceKept = 400

/**
 * Virtual time and everything that happens in it, one event after the other.
 *
 * Production code runs here as it is, with its promises. Between two events everything that became ready runs to its end,
 * in the order in which it became ready, and nothing but the schedule makes anything ready: so one seed is one history.
 */
export class World {
  readonly seed: number
  /** How often each thing happened, by name: what a run covered. */
  readonly counts = new Map<string, number>()
  readonly violations: Violation[] = []
  /** Events so far. */
  steps = 0
  /** A store was put back or lost: what was asked for before may be known to nobody. */
  isPutBack = false
  /** Written out with every line of the trace, for a replay that is looked at. */
  onTrace: ((line: string) => void) | undefined
  /** Goes on after a broken promise, so that every check has its say. */
  judgesAll = false
  /** Wall clocks stand still while they are looked at. */
  readonly hasSteadyClocks: boolean
  readonly #audit: Audit
  /** What was done of what the seed planned, in its order. */
  readonly planned: string[] = []
  readonly #kept: ReadonlySet<string> | undefined
  readonly #excused: ReadonlySet<string> | undefined
  readonly #schedule = new Schedule()
  readonly #trace: string[] = []
  #nowMs = 0
  #instantSteps = 0
  #hash = 0x811c9dc5
  #lines = 0

  /**
   * @param options - `kept`: what is done of what the seed plans, undefined: all; `excused`: checks that are left out;
   *   `hasSteadyClocks`: where much happens at a time, since looks at a clock that moves on by them add up to seconds
   */
  constructor(
    seed: number,
    options: {
      readonly kept?: ReadonlySet<string> | undefined
      readonly excused?: ReadonlySet<string>
      readonly hasSteadyClocks?: boolean
    } = {},
  ) {
    this.seed = seed
    this.hasSteadyClocks = options.hasSteadyClocks === true
    this.#kept = options.kept
    this.#excused = options.excused
    const checks = allChecks.filter(({ name }) => !this.isExcused(name))
    this.#audit = new Audit(checks, ({ check, message }) => this.violate(check, message))
  }

  /**
   * Whether something that the seed planned is done. What is left out leaves everything else as it would be: a shorter
   * story of the same failure.
   */
  keeps(id: string, what: string): boolean {
    if (this.#kept !== undefined && !this.#kept.has(id)) return false
    this.planned.push(id)
    this.note(`${id} ${what}`)
    return true
  }

  /** Whether a check cannot hold in this world. */
  isExcused(check: string): boolean {
    return this.#excused?.has(check) === true
  }

  get nowMs(): number {
    return this.#nowMs
  }

  /** Names the whole history: two runs with equal hashes saw the same. */
  get traceHash(): string {
    return `${this.#hash.toString(16).padStart(8, '0')}-${this.#lines}`
  }

  get lastTrace(): readonly string[] {
    return this.#trace.slice(-traceKept)
  }

  random(name: string): SeededRandom {
    return new SeededRandom(this.seed, name)
  }

  after(delayMs: number, run: () => void): Scheduled {
    return this.#schedule.add(this.#nowMs + Math.max(0, delayMs), run)
  }

  note(line: string): void {
    const dated = `${this.#nowMs.toFixed(3)} ${line}`
    this.#hash = hashText(dated, this.#hash)
    this.#lines += 1
    this.#trace.push(dated)
    if (this.#trace.length > 2 * traceKept) this.#trace.splice(0, traceKept)
    this.onTrace?.(dated)
  }

  count(name: string): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
  }

  /** Tells the checks of something that happened. */
  tell(event: AuditEvent): void {
    this.#audit.see(event)
  }

  /** Nothing more will happen that the checks have to know of. */
  endHistory(): void {
    this.#audit.end()
  }

  violate(checker: string, message: string): void {
    this.violations.push({ checker, atMs: this.#nowMs, message })
    // Without the stack that follows the first line: it is there only where it was asked for.
    this.note(`VIOLATION ${checker}: ${message.split('\n', 1)[0]}`)
  }

  /** A promise is broken, and what follows is of no interest. */
  get isBroken(): boolean {
    return this.violations.length > 0 && !this.judgesAll
  }

  /** Runs until `isOver` says so, virtual time is up, nothing is left, or the world is broken. */
  async run(options: { readonly untilMs: number; readonly isOver?: () => boolean }): Promise<void> {
    await settled()
    while (!this.isBroken && options.isOver?.() !== true) {
      const next = this.#schedule.first
      if (next === undefined) return
      if (!next.isCancelled && next.atMs > options.untilMs) {
        this.#nowMs = options.untilMs
        return
      }
      this.#schedule.take()
      if (next.isCancelled) continue
      this.#instantSteps = next.atMs === this.#nowMs ? this.#instantSteps + 1 : 0
      if (this.#instantSteps > instantStepsMax) {
        this.violate('no-bugs', 'one instant never ended')
        return
      }
      this.#nowMs = next.atMs
      this.steps += 1
      next.run()
      await settled()
    }
  }
}

/**
 * Resolves once every promise that can go on has gone on. Node runs a tick only after the queue of promises is empty, and
 * this needs no turn of the event loop: nothing of the real world can come in between. It holds from within a promise;
 * from a bare callback of the event loop, the tick comes before the promises that the callback set free.
 */
export function settled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}
