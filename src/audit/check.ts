import type { AuditEvent } from './events.ts'

/**
 * One promise, or a few that break together, held against a history. A check knows nothing of how the promise is kept. It
 * does no I/O and asks no clock: the same events give the same violations.
 */
export interface Check {
  readonly name: string
  /** Begins to watch one history. */
  begin(): Watch
}

export interface Watch {
  /** @param fail tells of a broken promise, as often as one is found */
  see(event: AuditEvent, fail: Fail): void
  /** After the last event. */
  end?(fail: Fail): void
}

export interface Finding {
  readonly message: string
  readonly agentId?: string
  /** Number in the hub's history of the event that breaks the promise. */
  readonly seq?: number
}

export type Fail = (finding: Finding) => void

export interface AuditViolation extends Finding {
  readonly check: string
}

/** Several checks over one history. */
export class Audit {
  readonly #watches: readonly { readonly watch: Watch; readonly fail: Fail }[]
  #events = 0

  constructor(checks: readonly Check[], onViolation: (violation: AuditViolation) => void) {
    this.#watches = checks.map((check) => ({
      watch: check.begin(),
      fail: (finding) => onViolation({ check: check.name, ...finding }),
    }))
  }

  /** Events seen so far. */
  get events(): number {
    return this.#events
  }

  see(event: AuditEvent): void {
    this.#events += 1
    for (const { watch, fail } of this.#watches) watch.see(event, fail)
  }

  /** The history is over: what is missing now is missing for good. */
  end(): void {
    for (const { watch, fail } of this.#watches) watch.end?.(fail)
  }
}
