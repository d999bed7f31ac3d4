import type { AttemptEvent } from '../core/attempt.ts'
import { clip } from '../core/clip.ts'
import { limits } from '../core/limits.ts'
import type { AttemptRef, NodeMessage } from '../core/messages.ts'
import { type AttemptResult, noUsage } from '../core/model.ts'
import { encodeRecord } from '../core/record-json.ts'
import type { Transaction } from '../runtime/engine.ts'
import type { DecodedWork } from '../runtime/session-codec.ts'
import type { Agents } from './agents.ts'
import { keys } from './records.ts'

/** What a message of a node is judged by. */
export interface MessageContext {
  readonly agents: Agents
  /** Boot of the node's machine, as its session's opening said. */
  readonly bootIdOf: (peerId: string) => string | undefined
  /** What is about the node as a whole. */
  readonly told: (
    tx: Transaction,
    peerId: string,
    message: Extract<NodeMessage, { type: 'inventory' | 'quarantined' }>,
  ) => void
}

type AboutAttempt = Exclude<NodeMessage, { type: 'unsupported' | 'inventory' | 'quarantined' }>

/**
 * Applies one message of a node, in the batch that moves the cursor past it. Total: what is about an attempt that this hub
 * does not know, or that another node was given, changes nothing. A node speaks for its own attempts alone.
 */
export function applyNodeMessage(context: MessageContext, tx: Transaction, peerId: string, message: NodeMessage): void {
  if (message.type === 'unsupported') return
  if (message.type === 'inventory' || message.type === 'quarantined') {
    context.told(tx, peerId, message)
    return
  }
  if (!isOwn(context, peerId, message.ref)) return
  apply(context, tx, peerId, message)
}

/** What is about an agent whose record is damaged has nothing to be applied to: its turns ended, or it would be open. */
function isOwn({ agents }: Pick<MessageContext, 'agents'>, peerId: string, ref: AttemptRef): boolean {
  if (!agents.isReadable(ref.agentId)) return false
  const task = agents.get(ref.agentId)?.tasks.find((candidate) => candidate.taskId === ref.taskId)
  const attempt = task?.attempts.find((candidate) => candidate.attemptId === ref.attemptId)
  return attempt?.peerId === peerId
}

function apply(context: MessageContext, tx: Transaction, peerId: string, message: AboutAttempt): void {
  const { agents } = context
  const { agentId, attemptId, epoch, taskId } = message.ref
  const attempt = (event: AttemptEvent): void => {
    agents.apply(tx, agentId, { type: 'attempt', attemptId, event }, peerId)
  }
  switch (message.type) {
    case 'claimed': {
      const bootId = context.bootIdOf(peerId)
      attempt({ type: 'claimed', epoch, ...(bootId === undefined ? {} : { bootId }) })
      break
    }
    case 'declined': {
      const { reason, isPermanent } = message
      attempt({
        type: 'declined',
        epoch,
        reason,
        isPermanent,
        message: clip(message.message, limits.detailMaxBytes),
      })
      break
    }
    case 'started':
      attempt({ type: 'started', epoch, sessionId: message.sessionId })
      break
    case 'message': {
      const { messageId, state } = message
      agents.apply(tx, agentId, { type: 'message_state', attemptId, messageId, state })
      break
    }
    case 'task_events': {
      for (const event of message.events) tx.put(keys.event(agentId, event.seq), encodeRecord(event))
      const newest = message.events.at(-1)
      if (newest !== undefined) agents.noteActivity(agentId, { atMs: newest.atMs })
      break
    }
    case 'ended':
      attempt({ type: 'ended', epoch, result: message.result })
      break
    case 'keeper_gone':
      if (isNeverTaken(context, message.ref)) {
        const decline = {
          reason: 'reservation_gone',
          message: clip(message.message, limits.detailMaxBytes),
        } as const
        attempt({ type: 'declined', epoch, ...decline, isPermanent: false })
        break
      }
      attempt({ type: 'lost', ground: groundOf(context, peerId, message.ref), message: message.message })
      break
    case 'receipt': {
      const { receipt } = message
      // What is on record is never written over: a task has the receipt that came first.
      if (agents.get(agentId)?.tasks.find((task) => task.taskId === taskId)?.receiptId !== undefined) break
      tx.put(keys.receipt(taskId), encodeRecord(receipt))
      agents.apply(tx, agentId, { type: 'receipt', attemptId, receiptId: receipt.receiptId }, peerId)
      break
    }
  }
}

/** This hub's store was put back to before the claim went out, and the node, whose store is whole, never had it. */
function isNeverTaken({ agents }: MessageContext, { agentId, attemptId }: AttemptRef): boolean {
  const attempts = agents.get(agentId)?.tasks.flatMap((task) => task.attempts) ?? []
  const attempt = attempts.find((candidate) => candidate.attemptId === attemptId)
  return attempt?.phase === 'offered' && attempt.doubts?.includes('hub') === true && !attempt.doubts.includes('node')
}

/** An end that could not be applied: the turn fails with that, since its node will not say it again. */
export function deadLetter(
  { agents }: Pick<MessageContext, 'agents'>,
  tx: Transaction,
  peerId: string,
  message: DecodedWork,
): void {
  if (message.type !== 'ended' && message.type !== 'keeper_gone') return
  if (!isOwn({ agents }, peerId, message.ref)) return
  const { agentId, attemptId, epoch } = message.ref
  const result: AttemptResult = {
    outcome: 'failed',
    reason: 'dead_letter',
    text: '',
    hint: 'The message with its end was set aside, with its bytes, in the store of the hub.',
    denied: [],
    usage: noUsage,
    messages: [],
    details: {},
  }
  agents.apply(tx, agentId, { type: 'attempt', attemptId, event: { type: 'ended', epoch, result } }, peerId)
}

/** A keeper that is gone because its machine was started anew since the claim. */
function groundOf({ agents, bootIdOf }: MessageContext, peerId: string, ref: AttemptRef): 'rebooted' | 'keeper_gone' {
  const tasks = agents.get(ref.agentId)?.tasks ?? []
  const attempt = tasks.flatMap((task) => task.attempts).find((candidate) => candidate.attemptId === ref.attemptId)
  const bootId = bootIdOf(peerId)
  return attempt?.bootId !== undefined && bootId !== undefined && attempt.bootId !== bootId ? 'rebooted' : 'keeper_gone'
}
