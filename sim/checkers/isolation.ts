import type { EntryRecord } from '../../src/hub/records.ts'
import { recordsOn } from '../scene.ts'
import type { Checker } from './checker.ts'

/** No hub hears of another hub's work, and no node does one hub's work for another (I1). */
export function isolation(): Checker {
  const owners = new Map<string, string>()
  return {
    name: 'isolation',
    onFrame({ message, hubId, side, life }, fail) {
      if (message === undefined || !('ref' in message.work)) return
      const { agentId } = message.work.ref
      const owner = owners.get(agentId)
      if (owner === undefined && side === 'hub') owners.set(agentId, hubId)
      else if (owner !== hubId) fail(`${life} spoke of ${agentId} of ${owner} in the session of ${hubId}`)
    },
    atEnd({ hubs, deeds }, fail) {
      for (const hub of hubs) {
        for (const { value } of recordsOn<EntryRecord>(hub.disk, 'hub/entry/')) {
          const owner = value.kind === 'event' ? undefined : owners.get(value.agentId)
          if (owner !== undefined && owner !== hub.hubId) fail(`${hub.name} has a result of ${owner}`)
        }
      }
      const marks = new Set(hubs.map(({ name }) => name))
      for (const mark of deeds.taken.keys()) {
        if (!marks.has(mark.split('.')[0] ?? '')) fail(`a text of nobody was taken up: ${mark}`)
      }
    },
  }
}
