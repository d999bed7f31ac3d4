import process from 'node:process'
import type { ExitProof } from '../core/journal.ts'
import type { Clock } from '../ports/clock.ts'
import { killInside, removeControlGroup } from './control-group.ts'
import { membersOf, type ProcessTree, pause, proveExit } from './exit-proof.ts'
import { bootId, isAlive, type ProcessName } from './process-table.ts'

/** How often the tree is looked at while it is expected to end: quick at first, then easy on the machine. */
const lookAgainFirstMs = 20
const lookAgainCapMs = 500

/**
 * Sends a signal to exactly this process.
 *
 * Node has no handle that pins a process it did not start, so number, start time and boot are compared immediately
 * before; a number that was given to another process is never signalled.
 *
 * @returns whether the signal was sent
 */
export function signalProcess(name: ProcessName, signal: NodeJS.Signals): boolean {
  if (name.pid === process.pid || !isAlive(name)) return false
  try {
    process.kill(name.pid, signal)
    return true
  } catch {
    // Ended in between, or of another user: the next look tells.
    return false
  }
}

/** Sends a signal to all that runs of the attempt. */
export function signalTree(tree: ProcessTree, signal: NodeJS.Signals): void {
  for (const { pid, start } of membersOf(tree)) signalProcess({ pid, start, bootId: bootId() }, signal)
}

/**
 * Ends all that runs of an attempt: SIGTERM, after `graceMs` SIGKILL, again and again until nothing is left. Resolves
 * only with the proof (rule 21), so it takes as long as a process that the kernel cannot end yet.
 */
export async function endTree(
  tree: ProcessTree,
  options: { readonly graceMs: number; readonly clock: Clock },
): Promise<ExitProof> {
  const { graceMs, clock } = options
  const killAtMs = clock.nowMs() + graceMs
  if (graceMs > 0) signalTree(tree, 'SIGTERM')
  for (let waitMs = lookAgainFirstMs; ; waitMs = Math.min(waitMs * 1.5, lookAgainCapMs)) {
    const proof = await proveExit(tree, clock)
    if (proof !== undefined) {
      if (tree.group !== undefined) removeControlGroup(tree.group)
      return proof
    }
    const leftMs = killAtMs - clock.nowMs()
    if (leftMs <= 0) {
      signalTree(tree, 'SIGKILL')
      if (tree.group !== undefined) killInside(tree.group)
    }
    await pause(clock, leftMs > 0 ? Math.min(waitMs, leftMs) : waitMs)
  }
}
