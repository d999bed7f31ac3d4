import type { StopInput } from '../control/schema/tool-inputs.ts'
import { limits } from '../core/limits.ts'
import { noUsage } from '../core/model.ts'
import { type Agent, currentTask, liveAttempt, returnedAttempt, type Task } from '../core/task-record.ts'
import { agentState } from './agent-state.ts'
import { textSoFar } from './get-result.ts'
import type { KeySlot } from './keys.ts'
import { cutPage } from './pages.ts'
import { type Document, usageDocument } from './present.ts'
import { unknownAgent } from './wait.ts'
import type { HubWorld } from './world.ts'

/** Bytes of JSON that the evidence's text may take; `get_result` has the rest. */
const evidenceBytes = 30_000

const utf8 = new TextEncoder()

/**
 * `stop_agent`: the stop is on disk and on its way before anything is waited for; the first durable end at the node is what
 * the turn ended with, be it the stop or a result that was quicker (rule 23).
 *
 * @throws {NfltrError} `not_found`
 */
export async function stopAgent(world: HubWorld, args: StopInput, slot: KeySlot): Promise<string> {
  const agent = world.agents.get(args.agent_id)
  if (agent === undefined) throw unknownAgent(args.agent_id)
  const taskId = slot.made?.['taskId'] ?? currentTask(agent).taskId
  const untilMs = world.clock.nowMs() + limits.stopAnswerMs - marginMs
  if (slot.made === undefined) {
    await world.engine.transact((tx) => {
      const reason = args.reason === undefined ? {} : { reason: args.reason }
      world.agents.apply(tx, args.agent_id, { type: 'stop', ...reason })
      slot.record(tx, { made: { taskId } })
    })
  }
  await world.changes.until(() => (isDecided(world, args.agent_id, taskId) ? true : undefined), { untilMs })
  const body = JSON.stringify(await answer(world, args.agent_id, taskId))
  await world.engine.transact((tx) => slot.record(tx, { body, made: { taskId } }))
  return body
}

/** Room for the reply's own way within the promised time, in milliseconds. */
const marginMs = 1_000

/** Whether nothing more is to be waited for: the turn ended, or its node is away and will hear of it later. */
function isDecided(world: HubWorld, agentId: string, taskId: string): boolean {
  const agent = world.agents.get(agentId)
  const task = agent?.tasks.find((candidate) => candidate.taskId === taskId)
  if (agent === undefined || task === undefined) return true
  const returned = returnedAttempt(agent)
  if (task.end !== undefined && returned === undefined) return true
  const attempt = returned ?? liveAttempt(agent)
  return attempt !== undefined && world.nodes.stateOf(attempt.peerId) !== 'online'
}

async function answer(world: HubWorld, agentId: string, taskId: string): Promise<Document> {
  const agent = world.agents.get(agentId)
  const task = agent?.tasks.find((candidate) => candidate.taskId === taskId)
  if (agent === undefined || task === undefined) throw unknownAgent(agentId)
  return {
    state: agentState(world, agent),
    evidence: await evidence(world, agent, task),
    receipt: receipt(agent, task),
  }
}

async function evidence(world: HubWorld, agent: Agent, task: Task): Promise<Document> {
  const end = task.lateEnd ?? task.end
  const text =
    end === undefined
      ? utf8.encode(await textSoFar(world, agent, task.turn))
      : await world.mailbox.readText(end.deliveryId)
  const page = cutPage(text, { offset: 0, maxJsonBytes: evidenceBytes, minBytes: limits.replyTextFirstBytes })
  return {
    text: page.text,
    text_bytes: text.length,
    next_offset: page.nextOffset,
    outcome: end?.outcome,
    usage: usageDocument(end?.usage ?? noUsage),
  }
}

/** What the stop of a process proved; absent where none was stopped. */
function receipt(agent: Agent, task: Task): Document | undefined {
  const end = task.lateEnd ?? task.end
  if (task.stop === undefined || end?.outcome !== 'stopped') return undefined
  // Stopped before a process ran in any of its turns: there is no session that could be idle.
  if (end.proof === undefined && agent.sessionId === undefined) return undefined
  return {
    command_id: task.stop.commandId,
    session_id: agent.sessionId,
    turn: task.turn,
    turn_status: 'interrupted',
    session_status: 'idle',
    process_exited: true,
    exit_proof: end.proof,
  }
}
