import type { HistoryEvent } from '../../core/history.ts'
import type { Check, Fail } from '../check.ts'

/**
 * By a hub's own history, an entry is carried by one reply at most, unless nothing of that reply was written; what was
 * settled, or may have been read, is not given again; and nothing is settled but by a confirmed reply that carried or named it
 * (D1, rules 1 and 2).
 */
export const offeredOnce: Check = {
  name: 'offered-once',
  begin() {
    const hubs = new Map<string, Delivery>()
    return {
      see(event, fail) {
        if (event.type !== 'decided') return
        const delivery = hubs.get(event.hubId) ?? fresh()
        hubs.set(event.hubId, delivery)
        judge(delivery, event.event, fail)
      },
    }
  },
}

interface Delivery {
  /** Entry → number in the history of the reply that carries it. */
  readonly carried: Map<number, number>
  readonly offers: Map<string, Extract<HistoryEvent, { type: 'offered' }>>
  /** Entries that a confirmed reply carried or named. */
  readonly confirmed: Set<number>
  /** Entries that are never given again, and why. */
  readonly closed: Map<number, 'settled' | 'doubted'>
  /** Of entries before it the history does not have the beginning. */
  firstDeliveryId: number
}

function fresh(): Delivery {
  return { carried: new Map(), offers: new Map(), confirmed: new Set(), closed: new Map(), firstDeliveryId: 1 }
}

function judge(delivery: Delivery, event: HistoryEvent, fail: Fail): void {
  const { carried, offers, confirmed, closed } = delivery
  const { seq } = event
  switch (event.type) {
    case 'inherited':
      delivery.firstDeliveryId = event.nextDeliveryId
      break
    case 'offered':
      offers.set(event.offerId, event)
      for (const deliveryId of event.carries) {
        const other = carried.get(deliveryId)
        if (other !== undefined) fail({ seq, message: `entry ${deliveryId} is in the replies of ${other} and ${seq}` })
        const why = closed.get(deliveryId)
        if (why !== undefined) fail({ seq, message: `entry ${deliveryId} was ${why}, and is given again at ${seq}` })
        carried.set(deliveryId, seq)
      }
      break
    case 'withdrawn':
      for (const deliveryId of offers.get(event.offerId)?.carries ?? []) carried.delete(deliveryId)
      break
    case 'confirmed': {
      const { carries = [], names = [] } = offers.get(event.offerId) ?? {}
      for (const deliveryId of [...carries, ...names]) confirmed.add(deliveryId)
      break
    }
    case 'doubted':
      for (const deliveryId of event.deliveryIds) closed.set(deliveryId, 'doubted')
      break
    case 'settled':
      for (const deliveryId of event.deliveryIds) {
        closed.set(deliveryId, 'settled')
        if (confirmed.has(deliveryId) || deliveryId < delivery.firstDeliveryId) continue
        fail({ seq, message: `entry ${deliveryId} was settled at ${seq}, and no confirmed reply carried or named it` })
      }
      break
    default:
  }
}
