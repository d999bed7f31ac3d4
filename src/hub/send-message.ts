import type { SendInput } from '../control/schema/tool-inputs.ts'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { type Agent, canContinue, currentTask, liveAttempt, type Steer } from '../core/task-record.ts'
import type { Transaction } from '../runtime/engine.ts'
import { isHomeGone } from './agent-state.ts'
import { idOfCall, turnOfMessage } from './ids.ts'
import type { KeySlot } from './keys.ts'
import { unknownAgent } from './wait.ts'
import type { HubWorld } from './world.ts'

type How = 'running_turn' | 'new_turn' | 'held'

/** How long the node's answer is waited for before the message is called held, in milliseconds. */
const answerMs = 10_000

/**
 * `send_message`: into the running turn, or as the next turn of an idle agent. It is `held` until its node has answered
 * (rule 22), and arrives there all the same.
 *
 * @throws {NfltrError} `not_found`; `agent_closed`, `node_lost`, `stopping` where no turn can take it
 */
export async function sendMessage(world: HubWorld, args: SendInput, slot: KeySlot): Promise<string> {
  const messageId = slot.made?.['messageId'] ?? idOfCall('msg_', slot.id, world.facts)
  const isNew = slot.made === undefined
  await world.placing.freshen()
  if (isNew) await world.engine.transact((tx) => take(world, tx, { args, slot, messageId }))
  const how = await world.changes.until(() => answered(world, args.agent_id, messageId), {
    untilMs: world.clock.nowMs() + answerMs,
  })
  const body = JSON.stringify({ message_id: messageId, how: how ?? 'held' })
  await world.engine.transact((tx) => slot.record(tx, { body, made: { messageId } }))
  return body
}

function take(
  world: HubWorld,
  tx: Transaction,
  { args, slot, messageId }: { args: SendInput; slot: KeySlot; messageId: string },
): void {
  const { agent_id: agentId, text } = args
  const { sha256 } = world.facts
  const taskId = turnOfMessage(messageId, sha256)
  // A repeat of a call that this hub's store forgot, and of whose turn a node has told since.
  const isTurn = world.agents.get(agentId)?.tasks.some((task) => task.taskId === taskId) === true
  if (!isTurn) assertTakes(world, agentId)
  slot.record(tx, { made: { messageId } })
  if (isTurn) return
  world.agents.keepMessage(tx, { messageId, agentId, text })
  const turn = { taskId, textHash: sha256(text), timeoutMs: limits.spawnWaitMs }
  world.agents.apply(tx, agentId, { type: 'send', messageId, ...turn })
  world.placing.run(tx)
}

function assertTakes(world: HubWorld, agentId: string): void {
  const agent = world.agents.get(agentId)
  if (agent === undefined) throw unknownAgent(agentId)
  const task = currentTask(agent)
  if (task.end === undefined) {
    if (task.stop === undefined) return
    throw new NfltrError('stopping', `The agent ${agentId} is being stopped.`, {
      hint: 'Once it is idle, a message starts its next turn.',
    })
  }
  if (canContinue(agent)) {
    if (!isHomeGone(world, agent)) return
    throw new NfltrError(
      'agent_closed',
      `The agent ${agentId} is closed: ${agent.home?.machine} is no node of the mesh.`,
      {
        hint: 'Spawn another agent.',
      },
    )
  }
  if (task.end.outcome === 'node_lost') {
    throw new NfltrError('node_lost', `The machine of the agent ${agentId} is lost.`, {
      hint: 'When the machine is back and reports the turn, the agent can go on; or spawn another agent.',
    })
  }
  throw new NfltrError('agent_closed', `The agent ${agentId} is closed: it has no session to go on with.`, {
    hint: 'Spawn another agent.',
  })
}

/** What is known of the message's way by now; undefined while its node has not answered. */
function answered(world: HubWorld, agentId: string, messageId: string): How | undefined {
  const agent = world.agents.get(agentId)
  if (agent === undefined) return 'held'
  const holder = agent.tasks.findLast((task) => task.steers.some((steer) => steer.messageId === messageId))
  if (holder === undefined || holder !== currentTask(agent)) return startedTurn(world, agent)
  const steer = holder.steers.find((candidate) => candidate.messageId === messageId)
  return steer === undefined ? undefined : steerAnswer(world, agent, steer)
}

function steerAnswer(world: HubWorld, agent: Agent, { state }: Steer): How | undefined {
  switch (state) {
    case 'accepted':
    case 'taken':
    case 'interrupted':
      return 'running_turn'
    case 'not_taken':
      throw new NfltrError('queue_full', `The running turn of ${agent.agentId} took no further message.`, {
        hint: 'Wait for the turn to end, then send it: it starts the next turn.',
      })
    case 'waiting':
      return 'held'
    case 'sent': {
      const attempt = liveAttempt(agent)
      const isAway = attempt !== undefined && world.nodes.stateOf(attempt.peerId) !== 'online'
      return isAway ? 'held' : undefined
    }
  }
}

/** The message is the brief of a turn: of one that is on its way, or of one that waits for its node. */
function startedTurn(world: HubWorld, agent: Agent): How {
  const { home } = agent
  const isQueued = currentTask(agent).end === undefined && liveAttempt(agent) === undefined
  return isQueued && home !== undefined && world.nodes.stateOf(home.peerId) !== 'online' ? 'held' : 'new_turn'
}
