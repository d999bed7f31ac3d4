import { describe, expect, test } from 'vitest'
import { messageFate } from '../../../src/audit/checks/message-fate.ts'
import type { AuditEvent } from '../../../src/audit/events.ts'
import type { MessageReport } from '../../../src/core/model.ts'

const answered: AuditEvent = { type: 'message_answered', hubId: 'hub_1', mark: 'm1', messageId: 'msg_1', text: '{m1}' }
const taken: AuditEvent = { type: 'taken', mark: 'm1', attemptId: 'att_1' }
const turn: AuditEvent = {
  type: 'agent_kept',
  hubId: 'hub_1',
  agentId: 'agt_1',
  no: 1,
  tasks: [
    {
      taskId: 'tsk_1',
      turn: 1,
      attempts: [{ attemptId: 'att_1', epoch: 1, peerId: 'peer_1', phase: 'ended' }],
    },
  ],
}

function told(state: MessageReport['state']): AuditEvent {
  const result = { taskId: 'tsk_1', turn: 1, attempt: 1, outcome: 'completed', isLate: false } as const
  const messages = [{ messageId: 'msg_1', state }]
  const entry = {
    type: 'entry_kept',
    hubId: 'hub_1',
    deliveryId: 1,
    kind: 'result',
    atMs: 1,
    agentId: 'agt_1',
  } as const
  return { ...entry, result: { ...result, messages } }
}

function found(...events: readonly AuditEvent[]): readonly string[] {
  const messages: string[] = []
  const watch = messageFate.begin()
  for (const event of events) watch.see(event, ({ message }) => messages.push(message))
  watch.end?.(({ message }) => messages.push(message))
  return messages
}

describe('the fate of a message', () => {
  test('is what its turn says, or a turn of its own', () => {
    expect(found(answered, taken, turn, told('taken'))).toEqual([])
    expect(found(answered, turn, told('not_taken'))).toEqual([])
    expect(found(answered, turn, told('interrupted'))).toEqual([])
    expect(found(answered, taken, turn, told('interrupted'))).toEqual([])
    expect(found(answered, taken, turn, { type: 'brief_kept', hubId: 'hub_1', text: '{m1}' })).toEqual([])
  })

  test('is told by somebody', () => {
    expect(found(answered, turn)).toEqual(['nobody was told what became of the message m1'])
  })

  test('is told as it was', () => {
    expect(found(answered, taken, turn, told('not_taken'))).toEqual([
      'the message m1 was told as not taken, and att_1 took it up',
    ])
    expect(found(answered, turn, told('taken'))).toEqual(['the message m1 was told as taken, and nobody took it up'])
  })

  test('may be another turn that took it up', () => {
    const later: AuditEvent = { type: 'taken', mark: 'm1', attemptId: 'att_2' }

    expect(found(answered, later, turn, told('not_taken'))).toEqual([])
  })
})
