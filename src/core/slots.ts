import type { Capacity } from './model.ts'

/**
 * Which turns hold a place on a node. A turn holds a slot from its claim to its recorded end, so nothing is started above
 * what the machine's owner allowed; and the folder it may write to, so that no two running agents share one (rule 34).
 */
export interface Slots {
  readonly maxAgents: number
  /** By attempt id, in the order in which they were taken. */
  readonly held: ReadonlyMap<string, HeldSlot>
}

export interface HeldSlot {
  readonly agentId: string
  readonly hubId: string
  /** Whether the turn was launched; before that it waits for its folders. */
  readonly isRunning: boolean
  /** Real path of the folder that the turn may write to, once it is known. */
  readonly directory?: string
}

export function emptySlots(maxAgents: number): Slots {
  return { maxAgents, held: new Map() }
}

/**
 * What a node tells its hubs. `free` is never below zero: after a restart with a smaller limit more turns may run than new
 * ones would be taken in.
 */
export function capacityOf(slots: Slots): Capacity {
  const running = [...slots.held.values()].filter((slot) => slot.isRunning).length
  const taken = slots.held.size
  return { free: Math.max(0, slots.maxAgents - taken), running, queued: taken - running }
}

/** How many slots a hub's turns hold. */
export function heldBy(slots: Slots, hubId: string): number {
  return [...slots.held.values()].filter((slot) => slot.hubId === hubId).length
}

export function hasFreeSlot(slots: Slots): boolean {
  return slots.held.size < slots.maxAgents
}

/** Whether a turn of this agent holds a slot: a second one would work in the same folder and session. */
export function isAgentBusy(slots: Slots, agentId: string): boolean {
  return [...slots.held.values()].some((slot) => slot.agentId === agentId)
}

/** Takes a slot, above the limit too: whether one may be taken was decided before, and a turn found running counts in any case. */
export function takeSlot(slots: Slots, attemptId: string, slot: HeldSlot): Slots {
  return { ...slots, held: new Map(slots.held).set(attemptId, slot) }
}

export function releaseSlot(slots: Slots, attemptId: string): Slots {
  if (!slots.held.has(attemptId)) return slots
  const held = new Map(slots.held)
  held.delete(attemptId)
  return { ...slots, held }
}

/**
 * The attempt whose folder this one would share: the same folder, one inside it, or one around it.
 *
 * @param directory a real path without a trailing slash, so that equal folders have equal names
 */
export function directoryHolder(slots: Slots, want: { attemptId: string; directory: string }): string | undefined {
  for (const [attemptId, slot] of slots.held) {
    if (attemptId === want.attemptId || slot.directory === undefined) continue
    if (overlaps(slot.directory, want.directory)) return attemptId
  }
  return undefined
}

function overlaps(a: string, b: string): boolean {
  return isWithin(a, b) || isWithin(b, a)
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
}
