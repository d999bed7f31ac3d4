import { wordsOf } from '../control/schema/issue-words.ts'
import { toolInputs } from '../control/schema/tool-inputs.ts'
import { NfltrError } from '../core/errors.ts'
import { type ToolCall, type ToolName, toolNames } from '../ports/hub-api.ts'
import { getResult } from './get-result.ts'
import type { KeySlot } from './keys.ts'
import { listAgents, listNodes } from './lists.ts'
import { sendMessage } from './send-message.ts'
import { spawnAgent } from './spawn.ts'
import { stopAgent } from './stop-agent.ts'
import { waitForAgents } from './wait.ts'
import type { HubWorld } from './world.ts'

/**
 * Answers one tool call with its document's JSON text.
 *
 * @throws {NfltrError} `unknown_tool`, `invalid_argument` naming the argument, and what the tools refuse with
 */
export async function answerCall(world: HubWorld, call: ToolCall): Promise<string> {
  switch (call.tool) {
    case 'get_result':
      return await getResult(world, parse('get_result', call.args))
    case 'list_agents':
      return await listAgents(world, parse('list_agents', call.args))
    case 'list_nodes':
      return await listNodes(world, parse('list_nodes', call.args))
    default:
      return await answerOnce(world, call, workOf(world, call))
  }
}

type Work = (slot: KeySlot) => Promise<string>

/** The calls that have an effect: each happens once for its key. */
function workOf(world: HubWorld, call: ToolCall): Work {
  switch (call.tool) {
    case 'spawn_agent': {
      const args = parse('spawn_agent', call.args)
      return (slot) => spawnAgent(world, call, args, slot)
    }
    case 'wait_for_agents': {
      const args = parse('wait_for_agents', call.args)
      return (slot) => waitForAgents(world, call, args, slot)
    }
    case 'send_message': {
      const args = parse('send_message', call.args)
      return (slot) => sendMessage(world, args, slot)
    }
    case 'stop_agent': {
      const args = parse('stop_agent', call.args)
      return (slot) => stopAgent(world, args, slot)
    }
    default:
      throw new NfltrError('unknown_tool', `No tool is named ${String(call.tool)}.`, {
        hint: `The tools are ${toolNames.join(', ')}.`,
      })
  }
}

/** A repeat gets the same bytes, and what they carry counts as handed out once more. */
async function answerOnce(world: HubWorld, call: ToolCall, work: Work): Promise<string> {
  const answer = await world.keys.once(call, work)
  if (answer.isRepeat && answer.offerId !== '') {
    await world.mailbox.decide({ type: 'repeated', offerId: answer.offerId, sessionKey: call.sessionKey })
  }
  return answer.body
}

type Input<Name extends ToolName> = ReturnType<(typeof toolInputs)[Name]['parse']>

function parse<Name extends ToolName>(tool: Name, args: ToolCall['args']): Input<Name> {
  const parsed = toolInputs[tool].safeParse(args)
  // The schema of this tool made the data; the compiler does not follow the tool's name through the table.
  if (parsed.success) return parsed.data as Input<Name>
  const issue = parsed.error.issues[0]
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined
  const argument = unknown ?? String(issue?.path[0] ?? '')
  const what = unknown === undefined ? wordsOf(issue) : 'is not an argument of this tool'
  throw new NfltrError('invalid_argument', `${tool}: ${argument}: ${what}`, {
    hint: `The arguments of ${tool} are ${Object.keys(toolInputs[tool].shape).join(', ')}.`,
    details: { argument },
  })
}
