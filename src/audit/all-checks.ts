import type { Check } from './check.ts'
import { acceptedOnce } from './checks/accepted-once.ts'
import { ackImpliesDurable } from './checks/ack-implies-durable.ts'
import { askedOnce } from './checks/asked-once.ts'
import { caughtUp } from './checks/caught-up.ts'
import { deliveredOnce } from './checks/delivered-once.ts'
import { endedOnce } from './checks/ended-once.ts'
import { epochsRise } from './checks/epochs-rise.ts'
import { executedOnce } from './checks/executed-once.ts'
import { forgetImpliesAck } from './checks/forget-implies-ack.ts'
import { foundAtStart } from './checks/found-at-start.ts'
import { historyChain } from './checks/history-chain.ts'
import { historyComplete } from './checks/history-complete.ts'
import { idle } from './checks/idle.ts'
import { isolation } from './checks/isolation.ts'
import { laneOrder } from './checks/lane-order.ts'
import { leftBehind } from './checks/left-behind.ts'
import { leftovers } from './checks/leftovers.ts'
import { liveness } from './checks/liveness.ts'
import { logOrder } from './checks/log-order.ts'
import { logSequence } from './checks/log-sequence.ts'
import { lossTold } from './checks/loss-told.ts'
import { messageFate } from './checks/message-fate.ts'
import { offeredOnce } from './checks/offered-once.ts'
import { oneOutcome } from './checks/one-outcome.ts'
import { oneOwner } from './checks/one-owner.ts'
import { oneReading } from './checks/one-reading.ts'
import { owner } from './checks/owner.ts'
import { receipts } from './checks/receipts.ts'
import { sameFacts } from './checks/same-facts.ts'
import { sameResult } from './checks/same-result.ts'
import { sentImpliesDurable } from './checks/sent-implies-durable.ts'
import { silence } from './checks/silence.ts'
import { stillDeliverable } from './checks/still-deliverable.ts'
import { withinLimits } from './checks/within-limits.ts'

/** Every check there is. Each is silent where the events that it looks at are not told. */
export const allChecks: readonly Check[] = [
  acceptedOnce,
  ackImpliesDurable,
  askedOnce,
  caughtUp,
  deliveredOnce,
  endedOnce,
  foundAtStart,
  historyChain,
  historyComplete,
  leftBehind,
  lossTold,
  offeredOnce,
  oneOwner,
  oneReading,
  owner,
  sameFacts,
  sameResult,
  silence,
  stillDeliverable,
  epochsRise,
  executedOnce,
  forgetImpliesAck,
  idle,
  isolation,
  laneOrder,
  leftovers,
  liveness,
  logOrder,
  logSequence,
  messageFate,
  oneOutcome,
  receipts,
  sentImpliesDurable,
  withinLimits,
]
