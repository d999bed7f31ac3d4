import type { ListAgentsInput, ListNodesInput } from '../control/schema/tool-inputs.ts'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { isMachineName } from '../core/membership.ts'
import type { AgentState } from '../core/model.ts'
import type { Agent } from '../core/task-record.ts'
import { agentState, shownState } from './agent-state.ts'
import { statesOf } from './machine-tallies.ts'
import { agentDocument, type Document, nodeDocument } from './present.ts'
import { TurnTimes } from './turn-times.ts'
import type { HubWorld } from './world.ts'

/** `list_agents`: newest first. The cursor is the number of the agent that the page before ended with. */
export async function listAgents(world: HubWorld, args: ListAgentsInput): Promise<string> {
  await world.engine.settled()
  const below = args.cursor === undefined ? Number.POSITIVE_INFINITY : cursorNumber(args.cursor)
  const states = args.state === undefined ? undefined : new Set(args.state)
  const limit = args.limit ?? limits.listDefault
  const found: Agent[] = []
  for await (const agent of candidates(world, below, states)) {
    if (states === undefined || states.has(agentState(world, agent))) found.push(agent)
    if (found.length > limit) break
  }
  const page = found.slice(0, limit)
  const last = page.at(-1)
  const turnTimes = new TurnTimes(world.agents.machines())
  return JSON.stringify({
    agents: page.map((agent) => agentDocument(world, agent, turnTimes)),
    next_cursor: found.length > page.length && last !== undefined ? String(last.no) : undefined,
  })
}

/** Agents that may be in one of these states, newest first. Of those that ended only what may belong there is read. */
async function* candidates(
  world: HubWorld,
  below: number,
  states: ReadonlySet<AgentState> | undefined,
): AsyncGenerator<Agent> {
  // Going through all that ended, for none of them, would take as long as they are many.
  const ended = statesOf(world.agents.machines(), (peerId) => world.nodes.gone(peerId) !== undefined)
  if (states === undefined || [...states].some((state) => ended.has(state))) {
    yield* world.agents.newestFirst(below, (ended) => states?.has(shownState(world, ended)) ?? true)
  } else {
    yield* world.agents
      .open()
      .filter((agent) => agent.no < below)
      .reverse()
  }
}

/** `list_nodes`: by name. Quiet links are probed first, so that `online` means that an answer came just now. */
export async function listNodes(world: HubWorld, args: ListNodesInput): Promise<string> {
  await world.settledStart()
  await world.placing.freshen()
  await world.engine.settled()
  const quiet = new Set(world.nodes.quiet())
  const views = new Map(world.nodes.views().map((view) => [view.peerId, view]))
  const wanted = Object.entries(args.labels ?? {})
  const { cursor } = args
  if (cursor !== undefined && !isMachineName(cursor)) throw unknownCursor('list_nodes')
  const found = world.nodes.all().filter(({ name, record }) => {
    if (cursor !== undefined && name <= cursor) return false
    const labels = record?.card.labels ?? {}
    return wanted.every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value)
  })
  const page = found.slice(0, limits.listMax)
  const nodes = page.flatMap((node): Document[] => {
    const view = views.get(node.peerId)
    if (view === undefined) return []
    // It was asked and did not answer in time.
    const state = quiet.has(node.peerId) && view.state === 'online' ? 'unverifiable' : view.state
    return [nodeDocument(world, node, { ...view, state })]
  })
  return JSON.stringify({ nodes, next_cursor: found.length > page.length ? page.at(-1)?.name : undefined })
}

function cursorNumber(cursor: string): number {
  if (/^[1-9]\d{0,14}$/.test(cursor)) return Number(cursor)
  throw unknownCursor('list_agents')
}

function unknownCursor(tool: string): NfltrError {
  return new NfltrError('invalid_argument', `The cursor is not one that ${tool} gave.`, {
    hint: 'Use next_cursor of the page before, or leave cursor out.',
    details: { argument: 'cursor' },
  })
}
