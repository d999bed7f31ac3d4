import type { NodeAttempt } from '../core/node-attempt-state.ts'
import type { Engine } from '../runtime/engine.ts'
import type { Attempts } from './attempts.ts'

export interface StoppingParts {
  readonly engine: Engine
  readonly attempts: Attempts
  /** How far an attempt's driver has read, where it can be given inputs now. */
  readonly liveAt: (attemptId: string) => number | undefined
  readonly wallMs: () => number
}

/**
 * Stops turns on the node's own word: whatever epoch their hubs have reached, this counts. Each ends with what it has done so
 * far, as after a stop of its hub. Those that are about to stop are left alone.
 */
export async function stopOpen(
  parts: StoppingParts,
  options: {
    /** Goes into the command's id. */
    readonly why: string
    readonly concerns: (state: NodeAttempt) => boolean
    readonly noted?: (hubId: string, attemptId: string) => void
  },
): Promise<void> {
  const { engine, attempts, liveAt, wallMs } = parts
  const { why, concerns, noted } = options
  const running = attempts.open().filter((state) => state.stop === undefined && concerns(state))
  if (running.length === 0) return
  await engine.transact((tx) => {
    for (const { hubId, ref, fence } of running) {
      const { attemptId } = ref
      const message = { type: 'stop', commandId: `${attemptId}.${why}`, ref: { ...ref, epoch: fence } } as const
      attempts.dispatch(tx, { hubId, attemptId }, { type: 'stop', message, liveAt: liveAt(attemptId), atMs: wallMs() })
      noted?.(hubId, attemptId)
    }
  })
}
