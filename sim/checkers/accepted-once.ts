import type { EntryRecord, ResultRecord } from '../../src/hub/records.ts'
import { recordsOn } from '../scene.ts'
import type { Checker } from './checker.ts'

/** At most one result is accepted for an attempt, and one more only as a late one (D5, D6). */
export function acceptedOnce(): Checker {
  return {
    name: 'accepted-once',
    atEnd({ hubs }, fail) {
      for (const hub of hubs) {
        const seen = new Map<string, ResultRecord>()
        for (const { value } of recordsOn<EntryRecord>(hub.disk, 'hub/entry/')) {
          if (value.kind !== 'result') continue
          const key = `${value.taskId} attempt ${value.attempt}${value.isLate ? ' (late)' : ''}`
          const other = seen.get(key)
          if (other !== undefined) {
            fail(`${hub.name} accepted ${key} twice, as ${other.deliveryId} and ${value.deliveryId}`)
          }
          seen.set(key, value)
        }
      }
    },
  }
}
