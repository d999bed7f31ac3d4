import type { DecisionEvent } from './events/decisions.ts'
import type { DeedEvent, RestEvent } from './events/deeds.ts'
import type { DeliveryEvent } from './events/delivery.ts'
import type { LineEvent } from './events/lines.ts'
import type { KeptEvent } from './events/records.ts'

/**
 * What can be known of hubs, nodes and what passes between them, as plain facts in the order in which they happened. Who
 * reads along tells more (the simulator sees every frame and every disk), who comes later tells what is on record. A check
 * looks at the facts that it needs and is silent about those that are not told.
 */
export type AuditEvent = LineEvent | DeliveryEvent | DecisionEvent | DeedEvent | RestEvent | KeptEvent
