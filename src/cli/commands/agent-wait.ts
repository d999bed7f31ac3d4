import type { Command } from 'commander'
import { limits } from '../../core/limits.ts'
import { hubLeaf } from '../command.ts'
import { agentId, collect, span } from '../values.ts'
import { type AgentWorld, type Document, HubConversation } from './agent-call.ts'
import { wholeText } from './agent-result.ts'

/** `nfltr agent wait` — the tool `wait_for_agents` from a shell. It holds the hub while it waits. */
export function agentWait(world: AgentWorld): Command {
  return hubLeaf('wait', 'wait for results; each comes exactly once')
    .argument('[id...]', 'only these agents', collect(agentId))
    .option('--all', 'until all of them have ended')
    .option('--timeout <span>', 'longest wait, such as 10m', span)
    .addHelpText('after', '\nExit code 1: an awaited agent did not complete. 4: the time ran out.')
    .action(async (ids: string[], _options: unknown, command: Command) => {
      const options = command.optsWithGlobals()
      await using conversation = new HubConversation(world.io, await world.connect(options))
      await conversation.hold()
      const reply = await collectResults(conversation, {
        ...(ids.length === 0 ? {} : { agent_ids: ids }),
        mode: options['all'] === true ? 'all' : 'any',
        events: false,
        ...(options['timeout'] === undefined ? {} : { timeout_ms: options['timeout'] }),
      })
      const results = entriesOf(reply, 'results')
      const running = entriesOf(reply, 'still_running')
      world.io.answer(reply, describe(results, running))
      await conversation.finish()
      if (results.some((result) => result['outcome'] !== 'completed')) process.exitCode = 1
      else if (isTimedOut({ results, running, ids, isAll: options['all'] === true })) process.exitCode = 4
    })
}

/** One reply is bounded; a shell wants everything that has arrived, and every text whole. */
async function collectResults(conversation: HubConversation, args: Document): Promise<Document> {
  let reply = await conversation.call('wait_for_agents', { ...args, max_bytes: limits.replyMaxBytes })
  const results = [...entriesOf(reply, 'results')]
  const unconfirmed = [...entriesOf(reply, 'unconfirmed')]
  for (let last = results; last.length > 0 && undelivered(reply) > 0; ) {
    reply = await conversation.call('wait_for_agents', {
      ...args,
      mode: 'any',
      timeout_ms: 0,
      max_bytes: limits.replyMaxBytes,
    })
    last = [...entriesOf(reply, 'results')]
    results.push(...last)
  }
  const whole: Document[] = []
  for (const result of results) whole.push(await completed(conversation, result))
  return { ...reply, results: whole, unconfirmed }
}

async function completed(conversation: HubConversation, result: Document): Promise<Document> {
  if (result['next_offset'] === undefined) return result
  const { next_offset: nextOffset, ...rest } = result
  const text = await wholeText(conversation, { delivery_id: result['delivery_id'], offset: nextOffset })
  return { ...rest, text: String(result['text']) + text.text }
}

function undelivered(reply: Document): number {
  const facts = reply['facts'] as Document | undefined
  return Number(facts?.['undelivered'] ?? 0)
}

function entriesOf(reply: Document, field: string): readonly Document[] {
  const entries = reply[field]
  return Array.isArray(entries) ? (entries as Document[]) : []
}

function isTimedOut(wait: {
  readonly results: readonly Document[]
  readonly running: readonly Document[]
  readonly ids: readonly string[]
  readonly isAll: boolean
}): boolean {
  if (wait.running.length === 0) return false
  return wait.isAll || wait.results.length === 0
}

function describe(results: readonly Document[], running: readonly Document[]): string {
  const parts = results.map((result) => {
    const reason = result['reason'] === undefined ? '' : ` (${String(result['reason'])})`
    return `== ${String(result['agent_id'])} turn ${String(result['turn'])}: ${String(result['outcome'])}${reason}\n${String(result['text'])}`
  })
  if (running.length > 0) parts.push(`still running: ${running.map((agent) => String(agent['agent_id'])).join(', ')}`)
  return parts.join('\n') || 'Nothing runs and nothing is waiting.'
}
