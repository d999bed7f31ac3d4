import type { Command } from 'commander'
import { limits } from '../../core/limits.ts'
import { hubLeaf } from '../command.ts'
import { agentId, collect, span } from '../values.ts'
import { type AgentWorld, type Document, HubConversation } from './agent-call.ts'
import { wholeText } from './agent-result.ts'
import { waitText } from './agent-wait-text.ts'

/** `nfltr agent wait` — the tool `wait_for_agents` from a shell. It holds the hub while it waits. */
export function agentWait(world: AgentWorld): Command {
  return hubLeaf('wait', 'wait for results and alerts; each comes exactly once')
    .argument('[id...]', 'only results of these agents', collect(agentId))
    .option('--all', 'until all of them have ended')
    .option('--timeout <span>', 'longest wait, such as 10m', span({ minMs: 0 }))
    .addHelpText('after', '\nExit code 1: an awaited agent did not complete. 4: the time ran out.')
    .action(async (ids: string[], _options: unknown, command: Command) => {
      const options = command.optsWithGlobals()
      const isAll = options['all'] === true
      await using conversation = new HubConversation(world.io, await world.connect(options))
      await conversation.hold()
      const reply = await collectReplies(conversation, {
        ...(ids.length === 0 ? {} : { agent_ids: ids }),
        mode: isAll ? 'all' : 'any',
        ...(options['timeout'] === undefined ? {} : { timeout_ms: options['timeout'] }),
      })
      const parts = partsOf(reply)
      const isOfSome = ids.length > 0
      world.io.answer(reply, waitText({ ...parts, isOfSome, ...pick('hubId', options['hubId']) }))
      await conversation.finish()
      if (parts.results.some((result) => result['outcome'] !== 'completed')) process.exitCode = 1
      else if (parts.running.length > 0 && (isAll || entriesIn(reply) === 0)) process.exitCode = 4
    })
}

function partsOf(reply: Document) {
  const facts = reply['facts'] as Document | undefined
  return {
    results: listOf(reply, 'results'),
    events: listOf(reply, 'events'),
    unconfirmed: listOf(reply, 'unconfirmed'),
    running: listOf(reply, 'still_running'),
    undelivered: undelivered(reply),
    isCatchingUp: reply['catching_up'] === true,
    ...pick('note', facts?.['note']),
  }
}

function pick<K extends string>(name: K, value: unknown): { readonly [Key in K]?: string } {
  return typeof value === 'string' ? ({ [name]: value } as { [Key in K]: string }) : {}
}

/**
 * One reply is bounded; a shell wants everything that has arrived, and every text whole. All of these replies are confirmed
 * together, so whatever any of them carries or names has to be in what is given out.
 */
async function collectReplies(conversation: HubConversation, args: Document): Promise<Document> {
  let reply = await conversation.call('wait_for_agents', { ...args, max_bytes: limits.replyMaxBytes })
  const replies = [reply]
  while (entriesIn(reply) > 0 && undelivered(reply) > 0) {
    reply = await conversation.call('wait_for_agents', {
      ...args,
      mode: 'any',
      timeout_ms: 0,
      max_bytes: limits.replyMaxBytes,
    })
    replies.push(reply)
  }
  const results: Document[] = []
  for (const result of replies.flatMap((one) => listOf(one, 'results'))) results.push(await whole(conversation, result))
  const events: Document[] = []
  for (const event of replies.flatMap((one) => listOf(one, 'events')))
    events.push(await wholeEvent(conversation, event))
  const given = new Set([...results, ...events].map((entry) => entry['delivery_id']))
  const named = new Map<unknown, Document>()
  for (const entry of replies.flatMap((one) => listOf(one, 'unconfirmed'))) {
    if (!given.has(entry['delivery_id'])) named.set(entry['delivery_id'], entry)
  }
  return { ...reply, results, events, unconfirmed: [...named.values()] }
}

async function whole(conversation: HubConversation, result: Document): Promise<Document> {
  if (result['next_offset'] === undefined) return result
  const { next_offset: nextOffset, ...rest } = result
  const text = await wholeText(conversation, { delivery_id: result['delivery_id'], offset: nextOffset })
  return { ...rest, text: String(result['text']) + text.text }
}

async function wholeEvent(conversation: HubConversation, event: Document): Promise<Document> {
  if (event['truncated'] === undefined) return event
  const { truncated: _cut, ...rest } = event
  return { ...rest, text: (await wholeText(conversation, { delivery_id: event['delivery_id'] })).text }
}

/** How many entries a reply carries. */
function entriesIn(reply: Document): number {
  return listOf(reply, 'results').length + listOf(reply, 'events').length
}

/** How many wait still, of any agent. */
function undelivered(reply: Document): number {
  const facts = reply['facts'] as Document | undefined
  return Number(facts?.['undelivered'] ?? 0)
}

function listOf(reply: Document, field: string): readonly Document[] {
  const entries = reply[field]
  return Array.isArray(entries) ? (entries as Document[]) : []
}
