import type { HistoryEvent } from '../../core/history.ts'
import type { Check, Fail } from '../check.ts'

/**
 * By a hub's own history, an entry is carried by one reply at most, unless nothing of that reply was written; and what was
 * settled, or may have been read, is not given again (D1, rules 1 and 2).
 */
export const offeredOnce: Check = {
  name: 'offered-once',
  begin() {
    const hubs = new Map<string, Delivery>()
    return {
      see(event, fail) {
        if (event.type !== 'decided') return
        const delivery = hubs.get(event.hubId) ?? { carried: new Map(), offers: new Map(), closed: new Map() }
        hubs.set(event.hubId, delivery)
        judge(delivery, event.event, fail)
      },
    }
  },
}

interface Delivery {
  /** Entry → number in the history of the reply that carries it. */
  readonly carried: Map<number, number>
  readonly offers: Map<string, readonly number[]>
  /** Entries that are never given again, and why. */
  readonly closed: Map<number, 'settled' | 'doubted'>
}

function judge({ carried, offers, closed }: Delivery, event: HistoryEvent, fail: Fail): void {
  const { seq } = event
  switch (event.type) {
    case 'offered':
      offers.set(event.offerId, event.carries)
      for (const deliveryId of event.carries) {
        const other = carried.get(deliveryId)
        if (other !== undefined) fail({ seq, message: `entry ${deliveryId} is in the replies of ${other} and ${seq}` })
        const why = closed.get(deliveryId)
        if (why !== undefined) fail({ seq, message: `entry ${deliveryId} was ${why}, and is given again at ${seq}` })
        carried.set(deliveryId, seq)
      }
      break
    case 'withdrawn':
      for (const deliveryId of offers.get(event.offerId) ?? []) carried.delete(deliveryId)
      break
    case 'doubted':
      for (const deliveryId of event.deliveryIds) closed.set(deliveryId, 'doubted')
      break
    case 'settled':
      for (const deliveryId of event.deliveryIds) closed.set(deliveryId, 'settled')
      break
    default:
  }
}
