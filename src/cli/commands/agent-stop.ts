import type { Command } from 'commander'
import { hubLeaf } from '../command.ts'
import { agentId } from '../values.ts'
import { type AgentWorld, type Document, HubConversation, toolFields } from './agent-call.ts'

/** `nfltr agent stop` — the tool `stop_agent` from a shell. */
export function agentStop(world: AgentWorld): Command {
  return hubLeaf('stop', "end an agent's turn and prove it")
    .argument('<id>', 'agent id', agentId)
    .option('--reason <text>', 'kept with the stop')
    .option('--idempotency-key <key>', 'the same key stops once')
    .action(async (id: string, _options: unknown, command: Command) => {
      const options = command.optsWithGlobals()
      const conversation = new HubConversation(world.io, await world.connect(options))
      const reply = await conversation.call('stop_agent', {
        agent_id: id,
        ...toolFields(options, ['reason', 'idempotency_key']),
      })
      const receipt = reply['receipt'] as Document | undefined
      const proof = receipt?.['exit_proof'] === undefined ? '' : `, process gone (${String(receipt['exit_proof'])})`
      world.io.answer(reply, `${id} ${String(reply['state'])}${proof}`)
      await conversation.finish()
    })
}
