import type { Command } from 'commander'
import { agentStates } from '../../core/model.ts'
import { hubLeaf } from '../command.ts'
import { table } from '../table.ts'
import { collectText, wholeNumber } from '../values.ts'
import { type AgentWorld, type Document, HubConversation, toolFields } from './agent-call.ts'

/** `nfltr agent list` — the tool `list_agents` from a shell. */
export function agentList(world: AgentWorld): Command {
  return hubLeaf('list', "list this project's agents, newest first")
    .option('--state <state>', `only these, may be repeated: ${agentStates.join(', ')}`, collectText)
    .option('--cursor <cursor>', 'next_cursor of the page before')
    .option('--limit <n>', 'rows per page', wholeNumber({ min: 1, max: 200 }))
    .action(async (_options: unknown, command: Command) => {
      const options = command.optsWithGlobals()
      const conversation = new HubConversation(world.io, await world.connect(options))
      const reply = await conversation.call('list_agents', toolFields(options, ['state', 'cursor', 'limit']))
      const agents = (reply['agents'] ?? []) as readonly Document[]
      const rows = agents.map((agent) => [
        String(agent['agent_id']),
        String(agent['state']),
        String(agent['outcome'] ?? '-'),
        String((agent['liveness'] as Document | undefined)?.['state'] ?? '-'),
        String(agent['machine'] ?? '-'),
        String(agent['title'] ?? ''),
      ])
      world.io.answer(
        reply,
        rows.length === 0 ? 'No agents.' : table(['agent', 'state', 'outcome', 'liveness', 'machine', 'title'], rows),
      )
      if (reply['next_cursor'] !== undefined) world.io.note(`There are more: --cursor ${String(reply['next_cursor'])}`)
      await conversation.finish()
    })
}
