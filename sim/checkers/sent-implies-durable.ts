import { keyNumber } from '../../src/core/key-order.ts'
import type { Agent } from '../../src/core/task-record.ts'
import { keys } from '../../src/hub/records.ts'
import { laneOn, recordOn } from '../scene.ts'
import type { Checker } from './checker.ts'

/** Nothing leaves a process that a crash could make it forget: no message, and no decision that a message tells of (D4). */
export function sentImpliesDurable(): Checker {
  return {
    name: 'sent-implies-durable',
    onFrame({ message, disk, remote, life, side }, fail) {
      if (message === undefined) return
      const { no, work } = message
      const acked = laneOn(disk, remote)?.acked ?? 0
      if (no > acked && disk.read(`outbox/${remote}/1/${keyNumber(no)}`) === undefined) {
        fail(`${life} sent message ${no} (${work.type}) to ${remote} and does not have it on disk`)
      }
      if (side === 'hub' && work.type === 'claim') {
        const { agentId, attemptId } = work.ref
        const tasks = recordOn<Agent>(disk, keys.agent(agentId))?.tasks ?? []
        const isKnown = tasks.some((task) => task.attempts.some((attempt) => attempt.attemptId === attemptId))
        if (!isKnown) fail(`${life} claimed ${attemptId} at a node and does not have the attempt on disk`)
      }
      if (side === 'node' && work.type === 'ended' && disk.read(`node/result/${work.ref.attemptId}`) === undefined) {
        fail(`${life} told the end of ${work.ref.attemptId} and does not have its result on disk`)
      }
    },
  }
}
