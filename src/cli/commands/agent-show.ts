import type { Command } from 'commander'
import { hubLeaf } from '../command.ts'
import { agentId } from '../values.ts'
import type { AgentWorld } from './agent-call.ts'

/** `nfltr agent show` — everything the hub knows of one agent. */
export function agentShow(world: AgentWorld): Command {
  return hubLeaf('show', 'show one agent with its turns')
    .argument('<id>', 'agent id', agentId)
    .action(async (id: string, _options: unknown, command: Command) => {
      const hub = await world.connect(command.optsWithGlobals())
      const agent = await hub.showAgent(id)
      world.io.answer(agent, JSON.stringify(agent, undefined, 2))
    })
}
