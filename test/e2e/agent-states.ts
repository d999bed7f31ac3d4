import { setTimeout as pause } from 'node:timers/promises'
import { waitingFor } from '../support/open-waits.ts'
import type { Machine } from './machine.ts'
import type { McpSession } from './mcp-client.ts'

type Fields = Readonly<Record<string, unknown>>

const lookEveryMs = 50

/** An agent as its list shows it. */
export async function agentOf(session: McpSession, agentId: unknown): Promise<Fields | undefined> {
  const { agents } = await session.tool('list_agents', {})
  return (agents as readonly Fields[]).find((agent) => agent['agent_id'] === agentId)
}

/** Waits until an agent's turn runs. @throws {Error} with what is known of it, once it no longer can */
export async function untilRuns(where: McpSession | Machine, agentId: unknown): Promise<void> {
  const look = (): Promise<Fields | undefined> =>
    'tool' in where ? agentOf(where, agentId) : where.json(['agent', 'show', String(agentId)])
  let agent: Fields | undefined
  const runs = async (): Promise<void> => {
    for (;;) {
      agent = await look()
      const state = agent?.['state']
      if (state === 'running') return
      if (state !== 'queued' && state !== 'starting')
        throw new Error(`the agent does not run: ${JSON.stringify(agent)}`)
      await pause(lookEveryMs)
    }
  }
  await waitingFor(() => `an agent runs; seen last: ${JSON.stringify(agent)}`, runs())
}
