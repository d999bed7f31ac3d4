import { clip } from '../core/clip.ts'
import { limits } from '../core/limits.ts'
import type { TaskEvent } from '../core/model.ts'
import { boundFields } from './text-bounds.ts'

/** A log line that has no number yet. */
export interface PendingEvent {
  readonly atMs: number
  readonly event: Pick<TaskEvent, 'type' | 'text' | 'fields'>
}

/** Numbers lines and groups them into messages of at most `limits.taskEventsPerMessageMax`. */
export function numberEvents(
  pending: readonly PendingEvent[],
  from: { readonly seq: number; readonly turn: number },
): readonly (readonly TaskEvent[])[] {
  const events = pending.map(({ atMs, event }, index): TaskEvent => {
    const { type, fields } = event
    const text = event.text === undefined ? {} : { text: clip(event.text, limits.eventTextMaxBytes) }
    return { seq: from.seq + index, atMs, turn: from.turn, type, ...text, fields: boundFields(fields) }
  })
  const groups: TaskEvent[][] = []
  for (let at = 0; at < events.length; at += limits.taskEventsPerMessageMax) {
    groups.push(events.slice(at, at + limits.taskEventsPerMessageMax))
  }
  return groups
}
