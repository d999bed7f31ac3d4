import { expect, test, vi } from 'vitest'
import { agentWait } from '../../src/cli/commands/agent-wait.ts'
import type { CliIo } from '../../src/cli/io.ts'
import { NfltrError } from '../../src/core/errors.ts'
import type { HubApi } from '../../src/ports/hub-api.ts'

test('a wait that is refused lets the hub go, so that it can end and others can have it', async () => {
  const release = vi.fn(async () => undefined)
  const refusal = new NfltrError('not_found', 'No agent agt_x is known to this hub.')
  const hub = {
    hold: async () => ({ release }),
    call: async () => {
      throw refusal
    },
  } as unknown as HubApi
  const command = agentWait({
    io: {} as CliIo,
    openReceipt: () => Promise.reject(new Error('nobody asks')),
    connect: async () => hub,
  })

  await expect(command.parseAsync(['agt_x'], { from: 'user' })).rejects.toBe(refusal)

  expect(release).toHaveBeenCalledOnce()
})
