import type { Command } from 'commander'
import { NfltrError } from '../../core/errors.ts'
import { limits } from '../../core/limits.ts'
import { hubLeaf } from '../command.ts'
import { agentId, wholeNumber } from '../values.ts'
import { type AgentWorld, type Document, HubConversation, spawnText, toolFields } from './agent-call.ts'
import { resultLines } from './agent-wait-text.ts'

const anyCount = wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER })

/** `nfltr agent result` — the tool `get_result` from a shell: the whole text, or one page where a page is asked for. */
export function agentResult(world: AgentWorld): Command {
  return hubLeaf('result', 'read a result again, whole')
    .argument('[id]', 'agent id', agentId)
    .option('--turn <n>', 'default: the latest', wholeNumber({ min: 1, max: 1_000_000 }))
    .option('--delivery-id <n>', 'any entry by its number, instead of an agent', anyCount)
    .option('--offset <bytes>', 'one page from here', anyCount)
    .option('--max-bytes <bytes>', 'bound of the page', anyCount)
    .action(async (id: string | undefined, _options: unknown, command: Command) => {
      const options = command.optsWithGlobals()
      if (id === undefined && options['deliveryId'] === undefined) {
        throw new NfltrError('invalid_argument', 'Neither an agent id nor --delivery-id was given.', {
          hint: 'Name an agent for its latest turn, or an entry with --delivery-id.',
          details: { argument: 'id' },
        })
      }
      const args = {
        ...(id === undefined ? {} : { agent_id: id }),
        ...toolFields(options, ['turn', 'delivery_id', 'offset', 'max_bytes']),
      }
      const conversation = new HubConversation(world.io, await world.connect(options))
      const isPage = options['offset'] !== undefined || options['maxBytes'] !== undefined
      const reply = isPage ? await conversation.call('get_result', args) : await wholeText(conversation, args)
      const { line, remark } = aboutEntry(reply)
      if (remark !== undefined) world.io.note(remark)
      world.io.answer(reply, line ?? String(reply['text']))
      await conversation.finish()
    })
}

/** What people have to know beside the text: instead of it, or as a remark that keeps out of the way of a pipe. */
function aboutEntry(reply: Document): { readonly line?: string; readonly remark?: string } {
  const entry = (reply['entry'] ?? {}) as Document
  if (entry['kind'] === 'spawn') return { line: spawnText(entry) }
  // An alert has a source, a result an outcome; a turn that runs has neither.
  if (entry['source'] !== undefined) return {}
  const next = reply['next_offset'] === undefined ? [] : [`The text goes on: --offset ${String(reply['next_offset'])}`]
  if (entry['outcome'] === undefined)
    return { remark: ['The turn has not ended; this is its text so far.', ...next].join('\n') }
  const lines = resultLines(entry)
  const isPlain = entry['outcome'] === 'completed' && lines.length === 1
  const remarks = [...(isPlain ? [] : lines), ...next]
  return remarks.length === 0 ? {} : { remark: remarks.join('\n') }
}

/** Reads on page by page until the text is whole. */
export async function wholeText(
  conversation: HubConversation,
  args: Document,
): Promise<Document & { readonly text: string }> {
  let page = await conversation.call('get_result', { ...args, max_bytes: limits.replyMaxBytes })
  let text = String(page['text'])
  while (page['next_offset'] !== undefined) {
    page = await conversation.call('get_result', {
      ...args,
      offset: page['next_offset'],
      max_bytes: limits.replyMaxBytes,
    })
    text += String(page['text'])
  }
  const { next_offset: _none, ...rest } = page
  return { ...rest, text }
}
