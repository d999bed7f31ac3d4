import { expect, test } from 'vitest'
import { settle } from '../contracts/manual-clock.ts'
import { TwinHub } from './support/twin-hub.ts'

test('a hub that learns of a forgotten turn holds no task back for a node that has said what it has', async () => {
  const twin = await TwinHub.withNodes({ name: 'a' }, { name: 'b' })
  const [a, b] = [twin.node('a'), twin.node('b')]
  await b.tellCapacity({ free: 0, running: 2, queued: 0 })
  await settle()
  await twin.spawn({ machine: 'b' })
  // Whether its store was put back or it lies: the hub knows nothing of this turn.
  const ref = { agentId: 'agt_forgotten', taskId: 'tsk_forgotten', attemptId: 'att_forgotten', epoch: 1 }
  const attempts = [{ ref, turn: 1, state: 'running', claimedAtMs: 1 } as const]
  await a.say({ type: 'inventory', attempts, orphans: [], isLast: true })
  await settle()
  expect(b.claims).toEqual([])

  await b.tellCapacity({ free: 2, running: 0, queued: 0 })
  await settle()
  await twin.clock.advance(5_000)
  await settle()

  expect(b.claims).toHaveLength(1)
})
