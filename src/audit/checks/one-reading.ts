import type { Check } from '../check.ts'

/** A decision has one instant: entry, end of the turn and its settlement bear the same (L5). */
export const oneReading: Check = {
  name: 'one-reading',
  begin() {
    const entries = new Map<string, number>()
    const ends: {
      readonly key: string
      readonly agentId: string
      readonly atMs: number
      readonly settledAtMs: number
    }[] = []
    return {
      see(event) {
        if (event.type === 'entry_kept' && event.result !== undefined) {
          entries.set(`${event.hubId} ${event.deliveryId}`, event.atMs)
        }
        if (event.type !== 'agent_kept') return
        for (const { deliveryId, endedAtMs, settledAtMs } of event.tasks) {
          if (deliveryId === undefined || endedAtMs === undefined || settledAtMs === undefined) continue
          ends.push({ key: `${event.hubId} ${deliveryId}`, agentId: event.agentId, atMs: endedAtMs, settledAtMs })
        }
      },
      end(fail) {
        for (const { key, agentId, atMs, settledAtMs } of ends) {
          const entryAtMs = entries.get(key)
          if (entryAtMs === undefined || (entryAtMs === atMs && settledAtMs === atMs)) continue
          fail({
            agentId,
            message: `the end of a turn of ${agentId} is dated ${atMs}, ${settledAtMs} and ${entryAtMs}`,
          })
        }
      },
    }
  },
}
