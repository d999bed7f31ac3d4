import { clip } from '../core/clip.ts'
import type { NfltrError } from '../core/errors.ts'
import type { Quarantined } from '../core/messages.ts'
import { Agents } from './agents.ts'
import { Changes } from './changes.ts'
import { Epoch } from './epoch.ts'
import { History } from './history.ts'
import { Holder } from './holder.ts'
import type { HubPorts } from './hub.ts'
import { Keys } from './keys.ts'
import { LinkProof } from './link-proof.ts'
import { Mailbox } from './mailbox.ts'
import { MembersGone } from './members-gone.ts'
import { applyNodeMessage, deadLetter, type MessageContext } from './node-messages.ts'
import { Nodes } from './nodes.ts'
import { Placing } from './placing.ts'
import { believedOn, reconcile } from './reconcile.ts'
import { Restoration } from './restoration.ts'
import { type Accepted, Sessions } from './sessions.ts'
import { Waiting } from './waiting.ts'
import { Watch } from './watch.ts'
import type { HubWorld } from './world.ts'

/** The parts of a hub, put together and running. */
export interface Assembly {
  readonly world: HubWorld
  readonly holder: Holder
  readonly epoch: Epoch
  /** Resolves when this hub has been replaced. */
  readonly failed: Promise<NfltrError>
  /** Calls back every second. */
  readonly onTick: (listener: () => void) => void
  close(): void
}

/** How long the nodes that are connected at the start have to catch up before a now-or-never spawn is decided without them. */
const startGraceMs = 3_000

/** Builds a hub from its store and opens its sessions. */
export async function assemble(ports: HubPorts): Promise<Assembly> {
  const { engine, store, clock, liveness, random, peers, facts } = ports
  const history = await History.load({ store, clock, sha256: facts.sha256 })
  const epoch = await Epoch.begin(engine, store, history)
  const changes = new Changes(clock)
  const failed = Promise.withResolvers<NfltrError>()
  const bootIds = new Map<string, string>()
  const believed = new Map<string, ReadonlySet<string>>()
  const randomId = (prefix: string): string => prefix + hex(random.bytes(16))
  const waiting = new Waiting()
  const mailbox = await Mailbox.load({ engine, store, changes, clock, history, waiting })
  const holder = new Holder(mailbox, { host: facts.host })

  const agents: Agents = await Agents.load({
    engine,
    mark: epoch.index,
    store,
    clock,
    changes,
    mailbox,
    history,
    sha256: facts.sha256,
    send: (tx, peerId, message) => sessions.send(tx, peerId, message),
    voidCommands: (tx, peerId, attemptId) => sessions.voidCommands(tx, peerId, attemptId),
    findPlaces: () => placing.trigger(),
  })
  await history.inherit(engine, { lastAgentNo: agents.nextNo - 1, nextDeliveryId: mailbox.nextDeliveryId })
  const nodes: Nodes = await Nodes.load({
    engine,
    store,
    clock,
    peers,
    pendingOn: (peerId) => agents.offeredOn(peerId),
    hasWorkOn: (peerId) => agents.aliveOn(peerId).length > 0,
    lastHeardAtMs: (peerId) => sessions.get(peerId)?.lastHeardAtMs(),
  })
  const placing: Placing = new Placing({
    engine,
    clock,
    agents,
    nodes,
    probe: (peerIds) => sessions.probe(peerIds),
    randomId,
    held: () => restoration.held(),
  })
  const tickListeners = new Set<() => void>()
  const proof = new LinkProof({
    clock,
    liveness,
    peers,
    lastHeardAtMs: (peerId) => sessions.get(peerId)?.lastHeardAtMs(),
  })
  const watch = new Watch({
    engine,
    clock,
    liveness,
    proof,
    agents,
    nodes,
    owedSinceMs: (peerId) => sessions.get(peerId)?.owedSinceMs(),
    changed: () => {
      placing.trigger()
      changes.notify()
    },
    ticked: () => {
      for (const listener of tickListeners) listener()
    },
    woke: (missedMs) => {
      placing.postpone(missedMs)
      sessions.prove(nodes.attached())
    },
  })

  const contactChanged = (): void => {
    placing.trigger()
    changes.notify()
  }
  const sessions: Sessions = new Sessions(
    { engine, store, clock, random, peers, epoch, hubId: facts.hubId },
    {
      message: (tx, peerId, message) => applyNodeMessage(messageContext, tx, peerId, message),
      restarted: (tx, peerId, restart) => restoration.restarted(tx, peerId, restart),
      quarantined: (tx, peerId, { no, kind, error, message }) => {
        const machine = nameOf(peerId)
        const text = `Message ${no} of ${machine} (${kind}) was set aside, since it could not be applied: ${error}`
        mailbox.deliverEvent(tx, { source: 'hub', machine, text: clip(text, 1_000) })
        if (message !== undefined) deadLetter({ agents }, tx, peerId, message)
      },
      control: (peerId, message) => {
        if (message.type === 'capacity') {
          if (message.capacity.free > 0 && nodes.freeOn(peerId) === 0) placing.rested(peerId)
          nodes.learn(peerId, { capacity: message.capacity, card: message.card })
          placing.trigger()
        } else if (message.type === 'progress') {
          const note = message.note === undefined ? {} : { note: message.note }
          agents.noteActivity(message.ref.agentId, { atMs: message.atMs, ...note })
        }
      },
      fences: (peerId) => {
        believed.set(peerId, believedOn(agents, peerId))
        return agents.fencesOf(peerId)
      },
      attached: (peerId, accepted: Accepted) => {
        bootIds.set(peerId, accepted.bootId)
        nodes.learn(peerId, { capacity: accepted.capacity, card: accepted.card })
        nodes.step(peerId, { type: 'attached', atMs: clock.nowMs() })
        contactChanged()
      },
      caughtUp: (peerId, accepted) => {
        nodes.caughtUp(peerId)
        restoration.askAgain(peerId)
        restoration.told(peerId)
        reconcile({ engine, agents }, peerId, { accepted, believed: believed.get(peerId) ?? new Set() })
        contactChanged()
      },
      detached: (peerId) => {
        nodes.step(peerId, { type: 'detached', atMs: clock.nowMs() })
        contactChanged()
      },
      stale: failed.resolve,
    },
  )

  void store.damaged.then(({ found }) =>
    engine
      .transact((tx) => mailbox.deliverEvent(tx, { source: 'hub', text: damageText(found) }))
      .catch(() => undefined),
  )
  const nameOf = (peerId: string): string => nodes.nameOf(peerId)
  const graceUntilMs = clock.nowMs() + startGraceMs
  const restoration = await Restoration.load({
    engine,
    clock,
    store,
    agents,
    mailbox,
    nameOf,
    isStarted: () => isStarted(nodes) || clock.nowMs() >= graceUntilMs,
    nodes: () => nodes.candidates(undefined, nodes.views()).map(({ peerId }) => peerId),
    send: (tx, peerId, message) => sessions.send(tx, peerId, message),
  })
  // Tasks that wait for what the nodes have look for a place then, whoever answered.
  if (restoration.holds) clock.after(startGraceMs, () => placing.trigger())
  const messageContext: MessageContext = {
    agents,
    bootIdOf: (peerId) => bootIds.get(peerId),
    told: (tx, peerId, message) => {
      if (message.type === 'inventory') restoration.inventory(tx, peerId, message)
      else mailbox.deliverEvent(tx, { source: nameOf(peerId), machine: nameOf(peerId), text: quarantineText(message) })
    },
  }
  await sessions.load(agents.homes())
  const keys = new Keys({ store, clock, sha256: facts.sha256 })
  // Nothing waits for it: what is over its age has been there for a month.
  void keys.prune(engine).catch(() => undefined)
  const world: HubWorld = {
    engine,
    store,
    clock,
    facts,
    changes,
    agents,
    mailbox,
    nodes,
    placing,
    waiting,
    keys,
    randomId,
    isHolder: (sessionKey) => holder.isHolder(sessionKey),
    toldOf: async (agentIds) => {
      const isTold = (): boolean => isStarted(nodes) || agentIds.every((agentId) => agents.get(agentId) !== undefined)
      const { untoldUntilMs } = restoration
      if (untoldUntilMs > clock.nowMs()) await changes.until(() => isTold() || undefined, { untilMs: untoldUntilMs })
    },
    settledStart: async () => {
      await changes.until(() => (isStarted(nodes) ? true : undefined), { untilMs: graceUntilMs })
    },
  }
  changes.subscribe(() => sessions.setBusy(new Set([...agents.workedOn(), ...nodes.unverifiable()])))
  sessions.start()
  watch.start()
  const membersGone = new MembersGone({
    engine,
    peers,
    agents,
    voidAll: (tx, peerId) => sessions.voidAll(tx, peerId),
    changed: contactChanged,
  })
  membersGone.start()
  contactChanged()
  return {
    world,
    holder,
    epoch,
    failed: failed.promise,
    onTick: (listener) => tickListeners.add(listener),
    close: () => {
      membersGone.close()
      placing.close()
      watch.close()
      proof.close()
      sessions.close()
    },
  }
}

function damageText(found: string): string {
  return clip(`The store of this hub is damaged; what is sound in it is used, and nothing else. ${found}`, 1_000)
}

function quarantineText({ no, kind, message }: Quarantined): string {
  return `Message ${no} of this hub (${kind}) was set aside, since it could not be applied: ${message}`
}

/** Whether every node of the roster is connected and caught up. */
function isStarted(nodes: Nodes): boolean {
  return nodes.views().every((view) => view.isReady)
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
