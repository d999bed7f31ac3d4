import type { Command } from 'commander'
import { hubLeaf } from '../command.ts'
import { agentId, wholeNumber } from '../values.ts'
import type { AgentWorld, Document } from './agent-call.ts'

const pageSize = 500

/** `nfltr agent logs` — an agent's events in order; `seq` is gapless per agent. */
export function agentLogs(world: AgentWorld): Command {
  return hubLeaf('logs', "print an agent's events")
    .argument('<id>', 'agent id', agentId)
    .option('--from-seq <n>', 'start here', wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER }), 0)
    .action(async (id: string, _options: unknown, command: Command) => {
      const options = command.optsWithGlobals()
      const hub = await world.connect(options)
      let fromSeq: number | undefined = options['fromSeq'] as number
      while (fromSeq !== undefined) {
        const page = await hub.logs(id, { fromSeq, limit: pageSize })
        for (const event of page.events) world.io.event({ event: 'log', ...event }, describe(event))
        fromSeq = page.nextSeq
      }
    })
}

function describe(event: Document): string {
  const text = event['text'] ?? event['tool'] ?? event['state'] ?? ''
  return `${String(event['at'])} ${String(event['turn'])} ${String(event['type'])} ${String(text)}`.trimEnd()
}
