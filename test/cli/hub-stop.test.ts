import { expect, test } from 'vitest'
import type { HubWorld } from '../../src/cli/commands/hub.ts'
import { hubStop } from '../../src/cli/commands/hub.ts'
import type { HubApi } from '../../src/ports/hub-api.ts'

test.each([
  [true, 'stopped', 'ended'],
  [false, 'stopping', 'is ending'],
])('hub stop says what became of the process: gone %s, %s', async (isGone, state, words) => {
  const order: string[] = []
  const answers: unknown[] = []
  const hub: Partial<HubApi> = {
    status: async () => ({ hub_id: 'hub_1', pid: 4711 }) as Awaited<ReturnType<HubApi['status']>>,
    stop: async () => void order.push('stop'),
  }
  const world: Partial<HubWorld> = {
    find: async () => hub as HubApi,
    untilGone: async (pid) => {
      order.push(`look for ${pid}`)
      return isGone
    },
    io: { answer: (...answer: unknown[]) => void answers.push(answer) } as unknown as HubWorld['io'],
  }

  await hubStop(world as HubWorld).parseAsync([], { from: 'user' })

  expect(order).toEqual(['stop', 'look for 4711'])
  expect(answers).toEqual([
    [{ hub_id: 'hub_1', pid: 4711, state }, `Hub hub_1 (pid 4711) ${words}. Its agents keep running.`],
  ])
})
