import type { Command } from 'commander'
import { hubLeaf } from '../command.ts'
import { agentId } from '../values.ts'
import { type AgentWorld, HubConversation, toolFields } from './agent-call.ts'

/** `nfltr agent send` — the tool `send_message` from a shell. */
export function agentSend(world: AgentWorld): Command {
  return hubLeaf('send', 'steer a running agent, or continue an idle one')
    .argument('<id>', 'agent id', agentId)
    .argument('<text>', 'the message; - reads standard input')
    .option('--idempotency-key <key>', 'the same key sends once')
    .action(async (id: string, text: string, _options: unknown, command: Command) => {
      const options = command.optsWithGlobals()
      const message = text === '-' ? await world.io.readInput() : text
      const conversation = new HubConversation(world.io, await world.connect(options))
      const reply = await conversation.call('send_message', {
        agent_id: id,
        text: message,
        ...toolFields(options, ['idempotency_key']),
      })
      world.io.answer(reply, `${String(reply['message_id'])} ${String(reply['how'])}`)
      await conversation.finish()
    })
}
