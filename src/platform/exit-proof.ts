import type { ExitProof } from '../core/journal.ts'
import type { Clock } from '../ports/clock.ts'
import { type ControlGroup, processesInside } from './control-group.ts'
import { type ProcessEntry, processesWithMark, readProcess } from './process-table.ts'

/** Everything that is known to be of one attempt. It grows with every look, so that a member whose parent dies stays one. */
export interface ProcessTree {
  readonly attemptId: string
  /** The control group that holds the attempt since its launch, where there is one. */
  readonly group: ControlGroup | undefined
  readonly known: Map<number, string>
  /** Filled only where `trustsSessions`. */
  readonly sessions: Set<number>
  /** Whether sessions seen once may be trusted later: only in the process that has watched since the launch. */
  readonly trustsSessions: boolean
}

/** Pause between the two scans that must both be clean, so that a fork behind the first one's back is met by the second. */
const secondLookMs = 20

export function processTree(
  attemptId: string,
  options: { readonly group?: ControlGroup | undefined; readonly trustsSessions: boolean },
): ProcessTree {
  const { group, trustsSessions } = options
  return { attemptId, group, known: new Map(), sessions: new Set(), trustsSessions }
}

/** Adds a process that is certainly of the attempt: its handle is held, or the journal names it for this very boot. */
export function addKnown(tree: ProcessTree, process: { readonly pid: number; readonly start: string }): void {
  tree.known.set(process.pid, process.start)
  if (tree.trustsSessions) tree.sessions.add(process.pid)
}

/** What runs of the attempt now: by control group, mark, descent and session. */
export function membersOf(tree: ProcessTree): readonly ProcessEntry[] {
  const members = new Map(processesWithMark(tree.attemptId, tree).map((entry) => [entry.pid, entry]))
  for (const pid of tree.group === undefined ? [] : processesInside(tree.group)) {
    const entry = readProcess(pid)
    if (entry !== undefined && !entry.isZombie) members.set(pid, entry)
  }
  for (const entry of members.values()) {
    tree.known.set(entry.pid, entry.start)
    if (tree.trustsSessions && entry.session === entry.pid) tree.sessions.add(entry.pid)
  }
  return [...members.values()]
}

/**
 * Looks whether nothing of the attempt is left.
 *
 * @returns how strongly that is known, or `undefined` where something still runs
 */
export async function proveExit(tree: ProcessTree, clock: Clock): Promise<ExitProof | undefined> {
  if (membersOf(tree).length > 0) return undefined
  // The group needs no second look: nothing can be born into an empty group.
  if (tree.group !== undefined) return 'cgroup_empty'
  await pause(clock, secondLookMs)
  return membersOf(tree).length > 0 ? undefined : 'scan_clean'
}

export function pause(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delayMs, resolve)
  })
}
