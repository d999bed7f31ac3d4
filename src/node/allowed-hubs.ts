import type { NodeCard } from '../core/model.ts'

/**
 * Why the hubs of a machine may not use this node, where its owner named those that may (rule 33). Turns that run already
 * go on: what an owner allows holds for new work.
 */
export function objectionToHub(
  allowed: readonly string[] | undefined,
  machineName: string | undefined,
): NodeCard['unavailable'] {
  if (allowed === undefined || (machineName !== undefined && allowed.includes(machineName))) return undefined
  return { reason: 'declined', message: 'Its owner lets only the hubs of other machines use it.' }
}
