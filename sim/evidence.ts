import { hash } from 'node:crypto'
import { AccountReader } from '../src/audit/account.ts'
import type { HistoryEvent } from '../src/core/history.ts'
import type { OpenEntry } from '../src/core/inbox-state.ts'
import { keyNumber } from '../src/core/key-order.ts'
import type { TaskEvent } from '../src/core/model.ts'
import type { NodeAttempt } from '../src/core/node-attempt-state.ts'
import type { EntryRecord } from '../src/hub/records.ts'
import type { HubProcess } from './hub-process.ts'
import type { NodeProcess } from './node-process.ts'
import { laneOn, recordsOn, type Scene } from './scene.ts'
import type { World } from './world.ts'

const utf8 = new TextDecoder()

/** Tells the checks what still had to happen, after everything healed and had its time. */
export function tellWhatIsLeft(scene: Scene): void {
  for (const { what, text } of findings(scene)) scene.world.tell({ type: 'left', what, text })
}

/** What still has to happen before the world is at rest: empty when it is. */
export function whatIsLeft(scene: Scene): readonly string[] {
  return findings(scene).map(({ text }) => text)
}

interface Left {
  readonly what: 'work' | 'leftover'
  readonly text: string
}

function findings({ hubs, nodes, workloads }: Scene): readonly Left[] {
  const work = [
    ...workloads.flatMap(({ hub, isDone }) => (isDone ? [] : [`${hub.name} has not read everything`])),
    ...hubs.flatMap((hub) => workLeftOfHub(hub)),
    ...nodes.flatMap((node) => (node.node === undefined ? [`${node.name} is not up`] : [])),
  ]
  const leftover = [
    ...hubs.flatMap((hub) =>
      nodes.flatMap((node) => undelivered(hub, { as: hub.hubId, to: node, remote: node.self.peerId })),
    ),
    ...nodes.flatMap((node) => leftOnNode(node, hubs)),
  ]
  return [
    ...work.map((text): Left => ({ what: 'work', text })),
    ...leftover.map((text): Left => ({ what: 'leftover', text })),
  ]
}

function workLeftOfHub(hub: HubProcess): readonly string[] {
  const open = recordsOn<OpenEntry>(hub.disk, 'hub/open/')
  return [
    ...(hub.hub === undefined ? [`${hub.name} is not up`] : []),
    ...open.map(({ value }) => `entry ${value.deliveryId} of ${hub.name} is ${value.state}`),
  ]
}

function leftOnNode(node: NodeProcess, hubs: readonly HubProcess[]): readonly string[] {
  const attempts = recordsOn<NodeAttempt>(node.disk, 'node/attempt/').map(({ value }) => value)
  const unsettled = attempts.filter(
    ({ phase, receipt, end }) => phase !== 'declined' && receipt === undefined && end?.keeperGone === undefined,
  )
  return [
    ...unsettled.map(({ phase, ref }) => `the attempt ${ref.attemptId} is ${phase} on ${node.name}, without a receipt`),
    ...node.machine.live.map(({ attemptId }) => `the keeper of ${attemptId} still runs on ${node.name}`),
    ...hubs.flatMap((hub) => undelivered(node, { as: node.self.peerId, to: hub, remote: hub.hubId })),
  ]
}

type Party = HubProcess | NodeProcess

/** Messages that one side has numbered and the other has not applied. */
function undelivered(
  from: Party,
  lane: { readonly as: string; readonly to: Party; readonly remote: string },
): readonly string[] {
  const sent = laneOn(from.disk, lane.remote)?.sent ?? 0
  const received = laneOn(lane.to.disk, lane.as)?.received ?? 0
  return sent === received ? [] : [`${lane.to.name} has ${received} of ${sent} messages of ${from.name}`]
}

/** Tells the checks which turns may be running by the word of each hub: in the middle of things, with machines away. */
export function tellTurns({ hubs }: Scene): void {
  for (const { hub, hubId, world, life } of hubs) {
    const reader = new AccountReader(hubId, sha256)
    life?.reach(async () => {
      // The first page has them all. A hub whose disk fails just then gives none.
      const page = await hub?.account().catch(() => undefined)
      for (const line of page?.lines ?? []) {
        const event = line.part === 'turn' ? reader.read(line) : undefined
        if (event !== undefined) world.tell(event)
      }
    })
  }
}

/** Tells the checks what all hubs have on record: each hub's own account of it, and what the account leaves out. */
export async function tellWhatIsOnRecord(scene: Scene): Promise<void> {
  const { world, workloads, nodes, hubs } = scene
  for (const { hub, spawned, sent } of workloads) {
    const { hubId } = hub
    for (const [mark, agentId] of spawned) world.tell({ type: 'spawn_answered', hubId, mark, agentId })
    // What a hub forgot with its store it cannot tell the fate of.
    if (!hub.wasPutBack)
      for (const [mark, message] of sent) world.tell({ type: 'message_answered', hubId, mark, ...message })
    tellTexts(scene, hub)
    await tellAccount(hub)
  }
  for (const node of nodes) for (const { hubId } of hubs) await tellAttempts(node, hubId)
}

function tellTexts(scene: Scene, hub: HubProcess): void {
  const { hubId, disk, world } = hub
  for (const key of disk.keys('hub/brief/')) {
    if (!key.startsWith('hub/brief/')) break
    world.tell({ type: 'brief_kept', hubId, text: utf8.decode(disk.read(key)) })
  }
  for (const { key, value } of recordsOn<TaskEvent>(disk, 'hub/event/')) {
    const said = value.type === 'text' && value.text !== undefined ? { text: value.text } : {}
    world.tell({ type: 'line_kept', hubId, agentId: key.split('/')[0] ?? '', seq: value.seq, ...said })
  }
  for (const { value } of recordsOn<EntryRecord>(disk, 'hub/entry/')) {
    if (value.kind === 'result' && value.outcome === 'completed') tellLinesOf(scene, hub, value)
  }
}

/** The account that the hub gives of itself, as `nfltr audit` reads it. */
async function tellAccount({ hub, hubId, world }: HubProcess): Promise<void> {
  const reader = new AccountReader(hubId, sha256)
  let from: string | undefined
  do {
    const page = await hub?.account(from)
    if (page === undefined) return
    reader.page(page.head)
    for (const line of page.lines) {
      // The lines of logs are told with their texts.
      const event = line.part === 'log' ? undefined : reader.read(line)
      if (event === undefined) continue
      world.tell(event)
      if (event.type === 'decided') countDecision(world, event.event)
    }
    from = page.next
  } while (from !== undefined)
  world.tell(reader.end())
}

/** What each node has on record, as `nfltr audit` asks for it. */
async function tellAttempts({ node, world }: NodeProcess, hubId: string): Promise<void> {
  const account = await node?.account(hubId)
  for (const attempt of account?.attempts ?? []) {
    world.tell({ type: 'attempt_on_node', node: account?.peerId ?? '', ...attempt })
  }
}

function countDecision(world: World, event: HistoryEvent): void {
  if (event.type === 'result') {
    world.count(`decided: ${event.outcome}${event.isLate === true ? ', late' : ''}`)
    if (event.ground !== undefined) world.count(`decided: node_lost, ${event.ground}`)
  } else if (event.type === 'attempt_became') {
    world.count(`decided: attempt ${event.phase}`)
  } else {
    world.count(`decided: ${event.type}`)
  }
}

function sha256(text: string): string {
  return hash('sha256', text, 'hex')
}

/** A turn that completed said all the lines of its script. */
function tellLinesOf({ world, deeds }: Scene, hub: HubProcess, entry: EntryRecord & { readonly kind: 'result' }): void {
  const [mark = ''] = utf8.decode(hub.disk.read(`hub/text/${keyNumber(entry.deliveryId)}`)).split(' ')
  const lines = deeds.taken.get(mark)?.[0]?.script.lines ?? 0
  for (let line = 0; line < lines; line++) {
    world.tell({ type: 'line_said', hubId: hub.hubId, agentId: entry.agentId, text: `${mark} line ${line}` })
  }
}
