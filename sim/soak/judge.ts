import { globSync } from 'node:fs'
import { join } from 'node:path'
import { isFatal } from './cells.ts'
import { controlGroupsOf, processesTouching } from './leftovers.ts'
import type { Mesh } from './mesh.ts'
import type { Document } from './session.ts'
import type { Trial } from './trial.ts'
import { until } from './until.ts'

interface Entry {
  readonly delivery_id: number
  readonly agent_id: string
  readonly outcome: string
  readonly text: string
  readonly reason?: string
}

interface Named {
  readonly delivery_id: number
  readonly kind: string
  readonly agent_id?: string
}

/** How a trial went: how its agent ended, how its result came, and what was wrong. */
export interface Verdict {
  readonly outcome: string
  /** `reply`: in one reply that was read whole. `unconfirmed`: named there, and read by `get_result`. */
  readonly came: 'reply' | 'unconfirmed' | 'never'
  readonly objections: readonly string[]
}

const settleRepliesMax = 4
const endBoundMs = 60_000

/** Reads on until nothing is owed, and holds what came, what was done in the world and what is left to what was promised. */
export async function judge(mesh: Mesh, trial: Trial): Promise<Verdict> {
  const objections: string[] = []
  const repliesBefore = repliesOf(mesh)
  await readTheRest(mesh, trial)
  const results = entriesOf(mesh, trial)
  const named = namedOf(mesh, trial)
  const whole = await readWhole(mesh, trial.agentId)
  if (results.length > 1) objections.push(`its result was in ${results.length} replies`)
  if (results.length === 0 && !named) objections.push('its result was in no reply and is not named in unconfirmed')
  objections.push(...(await settle(mesh, repliesBefore)))
  objections.push(...judgeOutcome(trial, whole))
  for (const { outcome, text } of results) {
    if (outcome !== whole.outcome) objections.push(`the reply says ${outcome}, get_result ${whole.outcome}`)
    if (!whole.text.startsWith(text)) objections.push('the text of the reply is not the beginning of the result')
  }
  objections.push(...(await judgeWorld(mesh, trial, whole.outcome)), ...(await judgeLeftovers(mesh, trial)))
  const came = results.length > 0 ? 'reply' : named ? 'unconfirmed' : 'never'
  return { outcome: whole.outcome, came, objections }
}

/** Waits until the result was read or is named. */
async function readTheRest(mesh: Mesh, trial: Trial): Promise<void> {
  const endMs = performance.now() + endBoundMs
  while (entriesOf(mesh, trial).length === 0 && !namedOf(mesh, trial)) {
    const reply = await trial.wait({ timeout_ms: 10_000 })
    const isOver = (reply['still_running'] as readonly unknown[]).length === 0
    if (isOver && entriesOf(mesh, trial).length === 0 && !namedOf(mesh, trial)) return
    if (performance.now() > endMs) throw new Error(`the agent did not end: ${JSON.stringify(reply).slice(0, 2_000)}`)
  }
}

/** What was named is named no more once a reply that named it counts as read. */
async function settle(mesh: Mesh, repliesBefore: number): Promise<readonly string[]> {
  let last: Document = {}
  for (let reply = 0; reply < settleRepliesMax; reply++) {
    last = await mesh.session.tool('wait_for_agents', { timeout_ms: 0 })
    if ((last['unconfirmed'] as readonly Named[]).length === 0) break
  }
  const open = last['unconfirmed'] as readonly Named[]
  const { undelivered } = last['facts'] as { undelivered: number }
  return [
    ...(open.length === 0
      ? []
      : [`after ${repliesOf(mesh) - repliesBefore} replies named still: ${JSON.stringify(open)}`]),
    ...(undelivered === 0 ? [] : [`${undelivered} entries are undelivered after everything was read`]),
  ]
}

function judgeOutcome(trial: Trial, { outcome, text, reason }: Whole): readonly string[] {
  const isExpected = outcome === 'completed' || trial.hands.killed.some(isFatal)
  const said = reason === undefined ? outcome : `${outcome} (${reason})`
  if (outcome === 'completed') return text === trial.answer ? [] : ['it completed with another answer']
  if (outcome !== 'failed' && outcome !== 'node_lost' && outcome !== 'rejected') return [`it ended with ${said}`]
  return isExpected || trial.mayBeLost ? [] : [`it ended with ${said} though neither keeper nor program was killed`]
}

async function judgeWorld(mesh: Mesh, trial: Trial, outcome: string): Promise<readonly string[]> {
  const deeds = mesh.deeds().filter(({ brief }) => brief === trial.brief)
  const attempts = new Set(deeds.map(({ attemptId }) => attemptId))
  return [
    ...(attempts.size === deeds.length ? [] : [`an attempt did its work more than once: ${JSON.stringify(deeds)}`]),
    ...(attempts.size <= 1 ? [] : [`the work was done in ${attempts.size} attempts`]),
    ...(outcome === 'completed' && deeds.length !== 1
      ? [`it completed, and the work was done ${deeds.length} times`]
      : []),
  ]
}

/** When an agent has ended, of all processes only node, hub and adapter are left, and no keeper's socket. */
async function judgeLeftovers(mesh: Mesh, trial: Trial): Promise<readonly string[]> {
  const look = async (): Promise<readonly string[]> => {
    const hub = await mesh.hub()
    const own = new Set([mesh.nodeProcess.pid, mesh.session.pid, hub?.pid])
    const processes = processesTouching(mesh.folder).filter(({ pid }) => !own.has(pid))
    const sockets = globSync(join(mesh.nodeMachine.home, 'run/**/k-*.sock'))
    const temporary = globSync(join(mesh.nodeHome, 'agents/tmp-*'))
    const groups = controlGroupsOf(new Set(trial.life.attemptIds()))
    return [...processes.map(({ pid, command }) => `process ${pid}: ${command}`), ...sockets, ...temporary, ...groups]
  }
  let left = await look()
  await until(
    'nothing is left',
    async () => {
      left = await look()
      return left.length === 0 ? true : undefined
    },
    10_000,
  ).catch(() => undefined)
  return left.map((what) => `left behind: ${what}`)
}

function repliesOf(mesh: Mesh): number {
  return mesh.sessions.reduce((sum, { replies }) => sum + replies.length, 0)
}

function waits(mesh: Mesh): readonly Document[] {
  return mesh.sessions
    .flatMap(({ replies }) => replies)
    .filter(({ tool }) => tool === 'wait_for_agents')
    .map(({ document }) => document)
}

function entriesOf(mesh: Mesh, trial: Trial): readonly Entry[] {
  return waits(mesh)
    .flatMap((document) => document['results'] as readonly Entry[])
    .filter((entry) => entry.agent_id === trial.agentId)
}

function namedOf(mesh: Mesh, trial: Trial): boolean {
  return waits(mesh)
    .flatMap((document) => document['unconfirmed'] as readonly Named[])
    .some((entry) => entry.agent_id === trial.agentId && entry.kind === 'result')
}

interface Whole {
  readonly outcome: string
  readonly reason?: string
  readonly text: string
}

async function readWhole(mesh: Mesh, agentId: string): Promise<Whole> {
  let text = ''
  for (let offset: number | undefined = 0; ; ) {
    const page: Document = await mesh.session.tool('get_result', { agent_id: agentId, offset, max_bytes: 200_000 })
    text += String(page['text'])
    offset = page['next_offset'] as number | undefined
    if (offset !== undefined) continue
    const { outcome, reason } = (page['entry'] ?? {}) as { outcome?: string; reason?: string }
    return { outcome: outcome ?? 'none', text, ...(reason === undefined ? {} : { reason }) }
  }
}
