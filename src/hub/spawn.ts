import type { SpawnInput } from '../control/schema/tool-inputs.ts'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { matching, type NodeView, nearestNames } from '../core/placement.ts'
import { type Agent, agentStateOf, liveAttempt, type TurnSettings } from '../core/task-record.ts'
import { newTask } from '../core/task-step.ts'
import type { ToolCall } from '../ports/hub-api.ts'
import type { Transaction } from '../runtime/engine.ts'
import { idOfCall } from './ids.ts'
import type { KeySlot } from './keys.ts'
import { wishOf } from './placing.ts'
import { factsDocument, timeOf } from './present.ts'
import { TurnTimes } from './turn-times.ts'
import type { HubWorld } from './world.ts'

/**
 * `spawn_agent`: takes the agent in, looks for a place, and answers with what became of it. All of that is one batch, with
 * the reply as an entry of the inbox.
 *
 * @throws {NfltrError} `invalid_argument` for a machine that is no member
 */
export async function spawnAgent(world: HubWorld, call: ToolCall, args: SpawnInput, slot: KeySlot): Promise<string> {
  const boundTo = args.machine === undefined ? undefined : memberNamed(world, args.machine)
  if (args.timeout_ms === 0) await world.settledStart()
  await world.placing.freshen()
  return await world.engine.transact((tx) => {
    const agent = newAgent(world, args, { boundTo, slot })
    // It is known where this hub's store forgot the call, and a node has told of the agent since.
    if (world.agents.get(agent.agentId) === undefined) world.agents.create(tx, agent, args.brief)
    const views = world.placing.run(tx)
    return answer(world, tx, { call, slot, agent: world.agents.get(agent.agentId) ?? agent, views })
  })
}

function answer(
  world: HubWorld,
  tx: Transaction,
  { call, slot, agent, views }: { call: ToolCall; slot: KeySlot; agent: Agent; views: readonly NodeView[] },
): string {
  const machine = liveAttempt(agent)?.machine
  const placed = machine === undefined ? {} : { machine }
  const deliveryId = world.mailbox.nextDeliveryId
  const state = agentStateOf(agent)
  const { agentId } = agent
  world.mailbox.deliverSpawn(tx, { kind: 'spawn', deliveryId, agentId, state, ...placed, atMs: world.clock.wallMs() })
  world.mailbox.step(tx, {
    type: 'offered',
    offerId: slot.offerId,
    answerKey: slot.answerKey,
    sessionKey: call.sessionKey,
    isOfHolder: world.isHolder(call.sessionKey),
    entries: [deliveryId],
    names: [],
  })
  const note = state === 'queued' ? waitingNote(world, agent, views) : undefined
  const facts = factsDocument(world, { wish: wishOf(agent), note, views })
  const body = JSON.stringify({ delivery_id: deliveryId, agent_id: agentId, state, ...placed, facts })
  slot.record(tx, { body, made: { agentId }, isOffer: true })
  return body
}

function waitingNote(world: HubWorld, agent: Agent, views: readonly NodeView[]): string {
  const matches = matching(wishOf(agent), world.nodes.candidates(agent.filters.machine, views))
  if (matches.length === 0) return 'No machine of the mesh matches yet; the agent waits for one within timeout_ms.'
  if (matches.every((node) => node.state !== 'online'))
    return 'Every matching machine is away; the agent waits for one within timeout_ms.'
  const freeAtMs = nextFreeAtMs(world, new Set(matches.map(({ peerId }) => peerId)))
  const estimate = freeAtMs === undefined ? '' : ` As past turns went, one may be free at ${timeOf(freeAtMs)}.`
  return `No matching machine has a free slot now; the agent waits for one within timeout_ms.${estimate}`
}

/** When the first of this hub's turns on these machines may end; other hubs' turns are not known here. */
function nextFreeAtMs(world: HubWorld, peerIds: ReadonlySet<string>): number | undefined {
  const turnTimes = new TurnTimes(world.agents.machines())
  const nowMs = world.clock.wallMs()
  const ends = world.agents
    .active()
    .filter((agent) => peerIds.has(agent.home?.peerId ?? ''))
    .flatMap((agent) => turnTimes.endsAtMs(agent, nowMs) ?? [])
  return ends.length === 0 ? undefined : Math.min(...ends)
}

function newAgent(
  world: HubWorld,
  args: SpawnInput,
  { boundTo, slot }: { readonly boundTo: string | undefined; readonly slot: KeySlot },
): Agent {
  const atMs = world.clock.wallMs()
  const task = newTask({
    taskId: idOfCall('tsk_', slot.id, world.facts),
    turn: 1,
    textHash: world.facts.sha256(args.brief),
    timeoutMs: args.timeout_ms ?? limits.spawnWaitMs,
    atMs,
  })
  return {
    agentId: idOfCall('agt_', slot.id, world.facts),
    no: world.agents.nextNo,
    ...(args.title === undefined ? {} : { title: args.title }),
    filters: {
      ...(args.machine === undefined ? {} : { machine: args.machine }),
      labels: args.labels ?? {},
      requires: args.requires ?? [],
      ...(args.dir === undefined ? {} : { dir: args.dir }),
    },
    ...(boundTo === undefined ? {} : { boundTo }),
    lostAfterMs: args.lost_after_ms ?? limits.lostAfterMs,
    ...(args.lost_after_ms === undefined ? {} : { isLostAfterGiven: true }),
    settings: settingsOf(args),
    startedAtMs: atMs,
    tasks: [task],
  }
}

function settingsOf(args: SpawnInput): TurnSettings {
  return {
    ...(args.model === undefined ? {} : { model: args.model }),
    ...(args.effort === undefined ? {} : { effort: args.effort }),
    ...(args.max_budget_usd === undefined ? {} : { maxBudgetUsd: args.max_budget_usd }),
    ...(args.max_turns === undefined ? {} : { maxTurns: args.max_turns }),
    ...(args.deadline_ms === undefined ? {} : { deadlineMs: args.deadline_ms }),
  }
}

/** The machine that a name means now: it is bound for good, whoever is called so later (rule 14). */
function memberNamed(world: HubWorld, name: string): string {
  const nodes = world.nodes.all()
  const node = nodes.find((candidate) => candidate.name === name)
  if (node !== undefined) return node.peerId
  const nearest = nearestNames(
    name,
    nodes.map((candidate) => candidate.name),
  )
  throw new NfltrError('invalid_argument', `No machine named ${name} is a node of this mesh.`, {
    hint:
      nearest.length === 0
        ? 'No machine has joined yet: nfltr mesh invite makes an invite.'
        : `Did you mean ${nearest.join(', ')}?`,
    details: { argument: 'machine', nearest },
  })
}
