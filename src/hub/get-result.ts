import type { GetResultInput } from '../control/schema/tool-inputs.ts'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { TaskEvent } from '../core/model.ts'
import { decodeRecord } from '../core/record-json.ts'
import type { Agent, Task } from '../core/task-record.ts'
import { agentState } from './agent-state.ts'
import { cutPage, jsonBytes } from './pages.ts'
import { type Document, eventEntryDocument, resultDocument, spawnDocument } from './present.ts'
import { prefixes } from './records.ts'
import { unknownAgent } from './wait.ts'
import type { HubWorld } from './world.ts'

const utf8 = new TextEncoder()

/**
 * `get_result`: any entry again, whole, in pages. Reading is never a delivery.
 *
 * @throws {NfltrError} `invalid_argument` without agent or number; `not_found` for what does not exist
 */
export async function getResult(world: HubWorld, args: GetResultInput): Promise<string> {
  await world.engine.settled()
  const { entry, text } = await find(world, args)
  const frame = { entry, text: '', text_bytes: text.length, next_offset: text.length }
  const maxJsonBytes = (args.max_bytes ?? limits.replyDefaultBytes) - jsonBytes(frame)
  const minBytes = limits.replyTextFirstBytes
  const page = cutPage(text, { offset: args.offset ?? 0, maxJsonBytes, minBytes })
  return JSON.stringify({ entry, text: page.text, text_bytes: text.length, next_offset: page.nextOffset })
}

interface Found {
  readonly entry: Document
  readonly text: Uint8Array
}

async function find(world: HubWorld, args: GetResultInput): Promise<Found> {
  if (args.delivery_id !== undefined && args.turn !== undefined) {
    throw new NfltrError('invalid_argument', 'Both turn and delivery_id were given; each names an entry by itself.', {
      hint: 'Give delivery_id for one entry, or agent_id and turn.',
      details: { argument: 'turn' },
    })
  }
  if (args.delivery_id !== undefined) return await byNumber(world, args.delivery_id, args.agent_id)
  if (args.agent_id === undefined) {
    throw new NfltrError('invalid_argument', 'Neither agent_id nor delivery_id was given.', {
      hint: "Give agent_id for an agent's latest turn, or delivery_id for any entry.",
      details: { argument: 'agent_id' },
    })
  }
  const agent = world.agents.get(args.agent_id)
  if (agent === undefined) throw unknownAgent(args.agent_id)
  const turn = args.turn ?? agent.tasks.length
  const task = agent.tasks[turn - 1]
  if (task === undefined) {
    throw new NfltrError('not_found', `The agent ${agent.agentId} has had ${agent.tasks.length} turns, not ${turn}.`, {
      hint: 'Leave `turn` out for the latest one.',
      details: { argument: 'turn' },
    })
  }
  const end = task.lateEnd ?? task.end
  return end === undefined ? await soFar(world, agent, task) : await byNumber(world, end.deliveryId)
}

/** @param agentId - whose entry it has to be; undefined: anybody's */
async function byNumber(world: HubWorld, deliveryId: number, agentId?: string): Promise<Found> {
  const record = await world.mailbox.read(deliveryId)
  const isOther = agentId !== undefined && (record?.kind === 'event' || record?.agentId !== agentId)
  if (record === undefined || isOther) {
    throw new NfltrError('not_found', `No entry${isOther ? ` of ${agentId}` : ''} has the number ${deliveryId}.`, {
      hint: "Leave delivery_id out for the agent's latest turn; list_agents names the agents.",
      details: { argument: 'delivery_id' },
    })
  }
  if (record.kind === 'spawn') return { entry: spawnDocument(record), text: new Uint8Array() }
  if (record.kind === 'event') return { entry: eventEntryDocument(record), text: utf8.encode(record.text) }
  const task = world.agents.get(record.agentId)?.tasks.find((candidate) => candidate.taskId === record.taskId)
  const entry = resultDocument(record, { receiptId: task?.receiptId, isWhole: true })
  return { entry, text: await world.mailbox.readText(deliveryId) }
}

/** A turn that has not ended: what it wrote up to now, without an outcome. */
async function soFar(world: HubWorld, agent: Agent, task: Task): Promise<Found> {
  const entry: Document = {
    agent_id: agent.agentId,
    task_id: task.taskId,
    turn: task.turn,
    state: agentState(world, agent),
    machine: agent.home?.machine,
    artifacts: [],
  }
  return { entry, text: utf8.encode(await textSoFar(world, agent, task.turn)) }
}

/** What a turn has written, as far as its events have come. */
export async function textSoFar(world: HubWorld, agent: Agent, turn: number): Promise<string> {
  const texts: string[] = []
  for await (const { value } of world.store.scan(prefixes.events(agent.agentId))) {
    const event = decodeRecord<TaskEvent>(value)
    if (event.turn === turn && event.type === 'text' && event.text !== undefined) texts.push(event.text)
  }
  return texts.join('\n')
}
