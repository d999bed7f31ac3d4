import type { Command } from 'commander'
import { NfltrError } from '../../core/errors.ts'
import { limits } from '../../core/limits.ts'
import { hubLeaf } from '../command.ts'
import { agentId, wholeNumber } from '../values.ts'
import { type AgentWorld, type Document, HubConversation, toolFields } from './agent-call.ts'

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
      world.io.answer(reply, String(reply['text']))
      await conversation.finish()
    })
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
