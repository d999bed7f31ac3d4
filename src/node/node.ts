import type { HubMessage } from '../core/messages.ts'
import type { Capacity, NodeCard } from '../core/model.ts'
import type { NodeAccount } from '../core/node-account.ts'
import { hasIds, judgeClaim, never } from '../core/node-attempt-claim.ts'
import type { ClaimMessage, Decline, NodeAttempt } from '../core/node-attempt-state.ts'
import { isOpen } from '../core/node-attempt-step.ts'
import type { NodeApi } from '../ports/hub-api.ts'
import type { FoundAttempt } from '../ports/keepers.ts'
import type { Transaction } from '../runtime/engine.ts'
import { Accounts } from './account.ts'
import { objectionToHub } from './allowed-hubs.ts'
import { Attempts } from './attempts.ts'
import { cardOf } from './card.ts'
import { hex } from './digest.ts'
import { recallForgotten } from './forgotten.ts'
import { inventoryOf, wholeInventory } from './inventory.ts'
import { Launches } from './launches.ts'
import type { NodePorts } from './ports.ts'
import { ProgramWatch } from './program-watch.ts'
import { Receipts } from './receipts.ts'
import { type HubRecord, readAgents, readAttempts, readHubs, writeHub } from './records.ts'
import { orphansOf, recover } from './recovery.ts'
import { Retention } from './retention.ts'
import { RevokedHubs } from './revoked-hubs.ts'
import { Sessions } from './sessions.ts'
import { Sharing } from './sharing.ts'
import { type StoppingParts, stopOpen } from './stopping.ts'

/** This machine as its hubs use it. */
export interface Node extends Pick<NodeApi, 'status' | 'account'> {
  /** Takes over what a former run left, then serves hubs. */
  start(): Promise<void>
  /** Takes no more turns in; running ones go on. */
  drain(): void
  /** Takes turns in again. */
  undrain(): void
  /** What this node still owes: turns that are not over, and messages that their hubs do not have. */
  owed(): { readonly agents: readonly string[]; readonly messages: number }
  /** Asks every turn that is not over to stop, as its hub would. */
  stopAll(why: string): Promise<void>
  readonly isDraining: boolean
  readonly card: NodeCard
  /** The highest epoch of a hub that was seen here, for hello (rule 7). */
  highestEpoch(hubId: string): number | undefined
  /** Lets go of everything. Keepers and their programs run on. */
  close(): Promise<void>
}

/**
 * Reads what a former run of the node had on disk and asks the agent program what it is. Nothing is taken over and nobody
 * served before `start`.
 *
 * @throws {NfltrError} `store_damaged`, `store_newer`
 */
export async function openNode(ports: NodePorts): Promise<Node> {
  const node = new RunningNode(ports)
  await node.load()
  return node
}

class RunningNode implements Node {
  readonly #ports: NodePorts
  readonly #attempts: Attempts
  readonly #sessions: Sessions
  readonly #sharing: Sharing
  readonly #launches: Launches
  readonly #receipts: Receipts
  readonly #retention: Retention
  readonly #revokedHubs: RevokedHubs
  readonly #accounts: Accounts
  readonly #programWatch: ProgramWatch
  #card: NodeCard
  #isProgramMissing = true
  #isDraining = false
  #orphans: ReadonlySet<string> = new Set()
  /** Attempts that the store had forgotten, and of which nothing ran any more when this process began. */
  #recalledOver: ReadonlySet<string> = new Set()

  constructor(ports: NodePorts) {
    this.#ports = ports
    this.#card = cardOf(ports.settings, { type: 'absent', reason: 'claude_missing', message: 'Not looked for yet.' })
    this.#sessions = new Sessions(ports, {
      apply: (tx, hubId, message) => this.#apply(tx, hubId, message),
      fence: (hubId, fences) =>
        ports.engine.transact((tx) => {
          for (const { attemptId, epoch } of fences) {
            this.#attempts.dispatch(tx, { hubId, attemptId }, { type: 'fence', epoch })
          }
        }),
      inventory: (hubId) => inventoryOf(this.#attempts.all(), hubId),
      restarted: (hubId, restart, send) => {
        const isOwn = restart.side === 'own'
        ports.note?.({ event: isOwn ? 'store_put_back' : 'hub_store_put_back', fields: { hub_id: hubId } })
        const orphans = [...this.#orphans]
        const over = this.#recalledOver
        for (const message of wholeInventory(this.#attempts.all(), { hubId, orphans, over })) send(message)
        // That a result arrived may be among what this store forgot, or what waited in its outbox; and a hub that has its receipt
        // does not ask for it.
        for (const message of this.#retention.endsOf(hubId)) send(message)
      },
      quarantined: (hubId, { no, kind, error, message }, send) => {
        ports.note?.({ event: 'message_quarantined', fields: { hub_id: hubId, no: String(no), kind, error } })
        // What the hub waits for an answer to is answered; everything else it learns from the session.
        if (message?.type === 'claim') {
          const text = 'The claim could not be applied on this node, and was set aside.'
          send({ type: 'declined', ref: message.ref, ...never('dead_letter', text) })
        } else if (message?.type === 'steer') {
          send({ type: 'message', ref: message.ref, messageId: message.messageId, state: 'not_taken' })
        }
      },
      card: (hubId) => this.#cardFor(hubId),
      capacity: (hubId) => this.#capacityFor(hubId),
      isBusy: (hubId) => this.#attempts.open().some((state) => state.hubId === hubId),
    })
    this.#attempts = new Attempts(ports.settings.maxAgents, {
      send: (tx, hubId, message) => this.#sessions.send(tx, hubId, message),
      drive: (tx, attemptId, input) => this.#launches.turn(attemptId)?.feed(tx, input),
      prepare: (attemptId) => this.#launches.prepare(attemptId),
      launch: (attemptId) => {
        this.#launches.launch(attemptId)
        this.#sessions.tellCapacity({ withCard: false })
      },
      ended: (attemptId) => {
        this.#launches.forget(attemptId)
        this.#retention.discardTemporary(attemptId)
        this.#retention.expire()
      },
      makeReceipt: (attemptId) => this.#receipts.make(attemptId),
      sendKeptResult: (attemptId) => this.#retention.sendKeptResult(attemptId),
      proveAbsent: (hubId, { ref }) => this.#retention.proveAbsent(hubId, ref),
      remove: (attemptId) => this.#retention.remove(attemptId),
      capacityChanged: () => {
        this.#sharing.look()
        this.#sessions.tellCapacity({ withCard: false })
      },
    })
    this.#sharing = new Sharing({
      clock: ports.clock,
      attempts: this.#attempts,
      maxAgentsPerHub: ports.settings.maxAgentsPerHub,
      outboxBytes: (hubId) => this.#sessions.outboxBytes(hubId),
      turnOver: () => this.#sessions.tellCapacity({ withCard: false }),
    })
    this.#launches = new Launches(ports, this.#attempts, (hubId) => this.#sessions.record(hubId))
    this.#receipts = new Receipts(ports, this.#attempts, this.#sessions)
    this.#retention = new Retention(ports, this.#attempts, this.#sessions)
    this.#accounts = new Accounts({
      engine: ports.engine,
      store: ports.store,
      peerId: ports.peers.self.machinePeerId,
      hub: (hubId) => this.#sessions.record(hubId),
    })
    this.#programWatch = new ProgramWatch({
      clock: ports.clock,
      isMissing: () => this.#isProgramMissing,
      look: (signal) => this.#refreshCard(signal),
    })
    this.#revokedHubs = new RevokedHubs({
      ...this.#stopping(),
      peers: ports.peers,
      machineOf: (hubId) => this.#sessions.record(hubId)?.machinePeerId,
      noted: (hubId, attemptId) =>
        ports.note?.({ event: 'stopped_of_revoked_hub', fields: { hub_id: hubId, attempt_id: attemptId } }),
    })
  }

  async load(): Promise<void> {
    const { store, driver } = this.#ports
    // It takes as long as a program takes to start; meanwhile the rest is read.
    const probing = driver.probe({ signal: AbortSignal.any([]) })
    probing.catch(() => undefined)
    this.#attempts.restore(await readAttempts(store), await readAgents(store))
    await this.#restoreSessions(await readHubs(store))
    const probe = await probing
    this.#isProgramMissing = probe.type === 'absent'
    this.#card = cardOf(this.#ports.settings, probe)
  }

  /**
   * Where the store was put back, the sessions say what is here as they are loaded. What the folders tell of and the store does
   * not becomes a record only then: a crash before repeats all of it.
   */
  async #restoreSessions(known: readonly HubRecord[]): Promise<void> {
    const { engine, keepers } = this.#ports
    const found = await this.#find()
    const forgotten = orphansOf(found, this.#attempts)
    const { attempts, hubs } = await recallForgotten(keepers, forgotten)
    this.#recalledOver = new Set(forgotten.filter(({ state }) => state !== 'live').map(({ attemptId }) => attemptId))
    const unknown = hubs.filter(({ hubId }) => known.every((hub) => hub.hubId !== hubId))
    this.#attempts.recall(attempts)
    this.#orphans = new Set(orphansOf(found, this.#attempts).map(({ attemptId }) => attemptId))
    await this.#sessions.restore([...known, ...unknown], { isPutBack: attempts.length > 0 })
    if (attempts.length === 0) return
    await engine.transact((tx) => {
      for (const hub of unknown) writeHub(tx, hub)
      this.#attempts.keepRecalled(tx)
    })
    this.#ports.note?.({ event: 'recalled_from_folders', fields: { attempts: String(attempts.length) } })
  }

  async start(): Promise<void> {
    const found = await this.#find()
    const taken = recover(found, {
      attempts: this.#attempts,
      launches: this.#launches,
      receipts: this.#receipts,
      retention: this.#retention,
    })
    const orphans = String(this.#orphans.size)
    this.#ports.note?.({ event: 'recovered', fields: { taken: String(taken), orphans } })
    this.#retention.expire()
    this.#sessions.serve()
    this.#ports.peers.serveAccounts((asker, after) => this.#accounts.answer(asker, after))
    this.#revokedHubs.start()
    this.#programWatch.start()
  }

  /** What is kept of attempts that ended, for a week each, says nothing that the store does not know. */
  #find(): Promise<readonly FoundAttempt[]> {
    const ended = this.#attempts.all().filter((state) => !isOpen(state))
    return this.#ports.keepers.find({ ended: new Set(ended.map(({ ref }) => ref.attemptId)) })
  }

  drain(): void {
    this.#isDraining = true
  }

  undrain(): void {
    this.#isDraining = false
  }

  owed(): { readonly agents: readonly string[]; readonly messages: number } {
    const agents = this.#attempts.open()
    return { agents: agents.map(({ ref }) => ref.agentId), messages: this.#sessions.unsent() }
  }

  stopAll(why: string): Promise<void> {
    return stopOpen(this.#stopping(), { why, concerns: () => true })
  }

  #stopping(): StoppingParts {
    return {
      engine: this.#ports.engine,
      attempts: this.#attempts,
      liveAt: (attemptId) => this.#launches.turn(attemptId)?.liveAt,
      wallMs: () => this.#ports.clock.wallMs(),
    }
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  get card(): NodeCard {
    return this.#card
  }

  highestEpoch(hubId: string): number | undefined {
    return this.#sessions.highestEpoch(hubId)
  }

  /** Asks the agent program again what it is, and tells the hubs where that changed. */
  async #refreshCard(signal: AbortSignal): Promise<void> {
    const probe = await this.#ports.driver.probe({ signal })
    this.#isProgramMissing = probe.type === 'absent'
    const card = cardOf(this.#ports.settings, probe)
    if (JSON.stringify(card) === JSON.stringify(this.#card)) return
    this.#card = card
    this.#sessions.tellCapacity({ withCard: true })
  }

  async close(): Promise<void> {
    this.#isDraining = true
    this.#revokedHubs.close()
    this.#programWatch.close()
    this.#sharing.close()
    this.#sessions.close()
    await this.#launches.close()
    await this.#receipts.close()
    await this.#retention.close()
  }

  async status(): Promise<Record<string, unknown>> {
    await this.#ports.engine.settled()
    const { self } = this.#ports.peers
    const open = this.#attempts.open()
    return {
      schema: 1,
      name: self.name,
      peer_id: self.peerId,
      draining: this.#isDraining,
      max_agents: this.#card.maxAgents,
      ...this.#capacity(),
      credential: this.#card.credential,
      ...(this.#card.claudeVersion === undefined ? {} : { claude_version: this.#card.claudeVersion }),
      ...(this.#card.unavailable === undefined ? {} : { unavailable: this.#card.unavailable }),
      agents: open.map((state) => ({
        agent_id: state.ref.agentId,
        task_id: state.ref.taskId,
        attempt_id: state.ref.attemptId,
        turn: state.turn,
        state: state.stop === undefined ? state.phase : 'stopping',
        claimed_at: new Date(state.claimedAtMs).toISOString(),
        ...(state.place === undefined ? {} : { workspace: state.place.workspace }),
      })),
      hubs: this.#sessions.status(),
      sessions_refused: this.#sessions.refused,
      unsendable: this.#sessions.unsendable(),
      orphans: [...this.#orphans],
    }
  }

  account(hubId: string, after?: string): Promise<NodeAccount> {
    return this.#accounts.account(hubId, after)
  }

  /** One message of a hub, in the transaction that moves the session's cursor: applied once, or not at all. */
  #apply(tx: Transaction, hubId: string, message: HubMessage): void {
    if (message.type === 'void') return
    if (message.type === 'quarantined') {
      const { no, kind } = message
      this.#ports.note?.({ event: 'message_quarantined_by_hub', fields: { hub_id: hubId, no: String(no), kind } })
      return
    }
    const { ref } = message
    const owner = this.#attempts.get(ref.attemptId)?.hubId ?? hubId
    if (!hasIds(ref) || owner !== hubId) {
      if (message.type !== 'claim') return
      const decline = never('declined', 'The claim named an attempt that is no id, or another hub’s.')
      this.#sessions.send(tx, hubId, { type: 'declined', ref, ...decline })
      return
    }
    const subject = { hubId, attemptId: ref.attemptId }
    const liveAt = this.#launches.turn(ref.attemptId)?.liveAt
    const atMs = this.#ports.clock.wallMs()
    switch (message.type) {
      case 'claim':
        this.#attempts.dispatch(tx, subject, {
          type: 'claim',
          hubId,
          message,
          fence: this.#sessions.fenceOf(hubId, ref.attemptId),
          newSessionId: this.#newSessionId(),
          decline: this.#judge(hubId, message, isNew(this.#attempts.get(ref.attemptId))),
          atMs,
        })
        break
      case 'steer':
        this.#attempts.dispatch(tx, subject, { type: 'steer', message, liveAt })
        break
      case 'stop':
        this.#attempts.dispatch(tx, subject, { type: 'stop', message, liveAt, atMs })
        break
      case 'collected':
        this.#attempts.dispatch(tx, subject, { type: 'collected', message })
        break
      case 'recall':
        // Its folder is here: the hub may claim it again, and nothing of it is ended meanwhile.
        if (this.#orphans.has(ref.attemptId) && this.#attempts.get(ref.attemptId) === undefined) {
          const orphans = [ref.attemptId]
          this.#sessions.send(tx, hubId, { type: 'inventory', attempts: [], orphans, isLast: false })
          break
        }
        this.#attempts.dispatch(tx, subject, { type: 'recall', message })
        break
    }
  }

  #judge(hubId: string, claim: ClaimMessage, isNewClaim: boolean): Decline | undefined {
    const agent = this.#attempts.agent(claim.ref.agentId)
    if (agent !== undefined && agent.hubId !== hubId) return never('declined', 'The claim named another hub’s agent.')
    const objection = this.#objectionTo(hubId)
    if (objection !== undefined) return never('declined', objection.message)
    const decline = judgeClaim(claim, {
      ...this.#sharing.policyFor(hubId),
      card: this.#card,
      slots: this.#attempts.slots,
      isDraining: this.#isDraining,
      knownSessionId: agent?.sessionId,
    })
    if (isNewClaim) this.#sharing.answered(hubId, decline)
    return decline
  }

  #capacityFor(hubId: string): Capacity {
    const capacity = this.#capacity()
    const isAllowed = this.#objectionTo(hubId) === undefined
    return { ...capacity, free: isAllowed ? Math.min(capacity.free, this.#sharing.freeFor(hubId)) : 0 }
  }

  #cardFor(hubId: string): NodeCard {
    const objection = this.#objectionTo(hubId)
    return objection === undefined ? this.#card : { ...this.#card, unavailable: objection }
  }

  #objectionTo(hubId: string): NodeCard['unavailable'] {
    return objectionToHub(this.#ports.settings.allowHubs, this.#sessions.machineNameOf(hubId))
  }

  #capacity() {
    return this.#attempts.capacity(this.#card.unavailable !== undefined || this.#isDraining)
  }

  /** A version-4 UUID: the program wants one. */
  #newSessionId(): string {
    const bytes = this.#ports.random.bytes(16).slice()
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
    return hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  }
}

/** Whether a claim of the attempt is judged anew; any other is a repeat, and gets the first answer. */
function isNew(state: NodeAttempt | undefined): boolean {
  return state === undefined || state.phase === 'declined'
}
