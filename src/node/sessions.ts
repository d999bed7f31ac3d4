import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { HubMessage, NodeMessage, SessionAccept, SessionOpen } from '../core/messages.ts'
import { type Capacity, type NodeCard, noUsage } from '../core/model.ts'
import type { Link } from '../ports/peers.ts'
import type { Transaction } from '../runtime/engine.ts'
import type { Poison } from '../runtime/quarantine.ts'
import { Session } from '../runtime/session.ts'
import type { LaneRestart } from '../runtime/session-options.ts'
import type { NodePorts } from './ports.ts'
import { type HubRecord, writeHub } from './records.ts'

/** What a session needs of the rest of the node. */
export interface SessionsInside {
  apply(tx: Transaction, hubId: string, message: HubMessage): void
  /** Fences that a hub named as it opened its session, before any of its commands come (rule 5). */
  fence(hubId: string, fences: SessionOpen['fences']): Promise<void>
  inventory(hubId: string): (SessionAccept & { type: 'accept' })['inventory']
  /** A session's lane begins anew, since a store was put back: says all that is here of the hub (rule 6). */
  restarted(hubId: string, restart: LaneRestart, send: (message: NodeMessage) => void): void
  /** A message of the hub was set aside, since it could not be applied (rule 26). */
  quarantined(hubId: string, poison: Poison, send: (message: NodeMessage) => void): void
  /** The node as one hub may use it. */
  card(hubId: string): NodeCard
  /** Slots as one hub may use them now. */
  capacity(hubId: string): Capacity
  isBusy(hubId: string): boolean
}

interface Hub {
  record: HubRecord
  readonly session: Session<NodeMessage, HubMessage>
  name: string | undefined
  /** The session's fences for attempts that the node does not know. The hub names them anew each time it opens. */
  fences: ReadonlyMap<string, number>
}

const hubIdPattern = /^[A-Za-z0-9_-]{1,128}$/
/** Hubs that a node keeps an outbox for. @see docs/reference/limits.md */
const hubsMax = 1024

/** One session per hub, kept over links and restarts: its outbox fills while the hub is away. */
export class Sessions {
  readonly #ports: NodePorts
  readonly #inside: SessionsInside
  readonly #hubs = new Map<string, Hub>()
  /** Loads on their way, so that two links of a new hub do not make two sessions. */
  readonly #loading = new Map<string, Promise<Hub>>()
  #isClosed = false
  #refused = 0
  /** By kind of message: why the last one did not go out. */
  readonly #unsendable = new Map<string, string>()

  constructor(ports: NodePorts, inside: SessionsInside) {
    this.#ports = ports
    this.#inside = inside
  }

  /** @param options - `isPutBack`: the node found its store put back, and every hub is told so (rule 6) */
  async restore(records: readonly HubRecord[], options: { readonly isPutBack: boolean }): Promise<void> {
    for (const record of records) this.#hubs.set(record.hubId, await this.#load(record, options))
  }

  /** Takes sessions from now on. */
  serve(): void {
    this.#ports.peers.serveSessions((link) => {
      this.#serve(link).catch((error: unknown) => {
        this.#refused += 1
        link.close(error instanceof Error ? error : new Error(String(error)))
        this.#ports.note?.({ event: 'session_refused', fields: { peer: link.peer.peerId, error: String(error) } })
      })
    })
  }

  /** Into the outbox of the hub. Only for hubs that the node knows: nobody else has attempts here. */
  send(tx: Transaction, hubId: string, message: NodeMessage): void {
    const hub = this.#hubs.get(hubId)
    if (hub === undefined) throw new Error(`there is no session of the hub ${hubId}`)
    hub.session.send(tx, message)
  }

  fenceOf(hubId: string, attemptId: string): number {
    return this.#hubs.get(hubId)?.fences.get(attemptId) ?? 0
  }

  /** The machine of a hub, by the name in its membership when it was last here. */
  machineNameOf(hubId: string): string | undefined {
    return this.#hubs.get(hubId)?.name
  }

  record(hubId: string): HubRecord | undefined {
    return this.#hubs.get(hubId)?.record
  }

  setReceiptHead(tx: Transaction, hubId: string, receiptHead: string): void {
    const hub = this.#hubs.get(hubId)
    if (hub === undefined) return
    hub.record = { ...hub.record, receiptHead }
    writeHub(tx, hub.record)
  }

  /** The highest epoch of a hub that the node has seen (rule 7); undefined for a hub that it does not know. */
  highestEpoch(hubId: string): number | undefined {
    const epoch = this.#hubs.get(hubId)?.session.highestEpoch
    return epoch === undefined || epoch === 0 ? undefined : epoch
  }

  /** Tells every hub that is here how many slots are free, and with `withCard` what the node is. */
  tellCapacity(options: { readonly withCard: boolean }): void {
    for (const [hubId, { session }] of this.#hubs) {
      session.setBusy(this.#inside.isBusy(hubId))
      const card = options.withCard ? { card: this.#inside.card(hubId) } : {}
      session.control({ type: 'capacity', capacity: this.#inside.capacity(hubId), ...card })
    }
  }

  /** What the hub has not acknowledged. */
  outboxBytes(hubId: string): number {
    return this.#hubs.get(hubId)?.session.outbox().bytes ?? 0
  }

  status(): readonly Record<string, unknown>[] {
    return [...this.#hubs].map(([hubId, { session, name }]) => {
      const { entries, bytes } = session.outbox()
      return {
        hub_id: hubId,
        ...(name === undefined ? {} : { machine: name }),
        connected: session.isAttached,
        epoch: session.highestEpoch,
        outbox: { entries, bytes },
      }
    })
  }

  /** Messages that are on disk here and not yet acknowledged by their hub. */
  unsent(): number {
    return [...this.#hubs.values()].reduce((sum, { session }) => sum + session.outbox().entries, 0)
  }

  /** What no hub can be told, since it is over a bound of the wire. */
  unsendable(): readonly { readonly kind: string; readonly error: string }[] {
    return [...this.#unsendable].map(([kind, error]) => ({ kind, error }))
  }

  get refused(): number {
    return this.#refused
  }

  close(): void {
    this.#isClosed = true
    for (const { session } of this.#hubs.values()) session.close()
  }

  async #serve(link: Link): Promise<void> {
    const { peer } = link
    // Hello has proven all of this; it is looked at here because here it grants something.
    if (
      peer.kind !== 'hub' ||
      !peer.roles.includes('hub') ||
      peer.hubId === undefined ||
      !hubIdPattern.test(peer.hubId)
    ) {
      throw new NfltrError('wrong_role', `${peer.name} opened a session and is no hub.`)
    }
    const signal = timeout(this.#ports, limits.helloTimeoutMs)
    const open = await Session.readOpen(link, { signal: signal.signal }).finally(signal.cancel)
    if (open.hubId !== peer.hubId) {
      throw new NfltrError('bad_certificate', `${peer.name} opened a session for a hub that it is not certified for.`)
    }
    const hub = await this.#hub(open.hubId, peer.machinePeerId)
    if (hub.record.machinePeerId !== peer.machinePeerId) {
      throw new NfltrError('bad_certificate', `${peer.name} opened a session for a hub of another machine.`)
    }
    if (this.#isClosed) throw new NfltrError('stopping', 'The node is stopping.')
    // An older hub is refused by `accept`; its fences must not count either.
    if (open.epoch >= hub.session.highestEpoch) {
      hub.fences = new Map(open.fences.map(({ attemptId, epoch }) => [attemptId, epoch]))
      await this.#inside.fence(open.hubId, open.fences)
    }
    hub.name = peer.name
    hub.session.setBusy(this.#inside.isBusy(open.hubId))
    const { bootId } = this.#ports
    const { capacity, card, inventory } = this.#inside
    await hub.session.accept(link, open, {
      bootId,
      inventory: inventory(open.hubId),
      card: card(open.hubId),
      capacity: capacity(open.hubId),
    })
    this.#ports.note?.({ event: 'hub_attached', fields: { hub_id: open.hubId, machine: peer.name } })
    // What changed while the answer was on its way.
    hub.session.control({ type: 'capacity', capacity: capacity(open.hubId), card: card(open.hubId) })
  }

  async #hub(hubId: string, machinePeerId: string): Promise<Hub> {
    const known = this.#hubs.get(hubId)
    if (known !== undefined) return known
    const loading = this.#loading.get(hubId) ?? this.#meet(hubId, machinePeerId)
    this.#loading.set(hubId, loading)
    return loading.finally(() => this.#loading.delete(hubId))
  }

  async #meet(hubId: string, machinePeerId: string): Promise<Hub> {
    if (this.#hubs.size >= hubsMax) throw new NfltrError('queue_full', `The node knows ${hubsMax} hubs already.`)
    const record: HubRecord = { hubId, machinePeerId, receiptHead: '' }
    const hub = await this.#load(record, { isPutBack: false })
    await this.#ports.engine.transact((tx) => writeHub(tx, record))
    this.#hubs.set(hubId, hub)
    return hub
  }

  /** Told once of each kind: what comes with every beat would flood whoever reads. */
  #noteUnsendable(kind: string, { message: error }: NfltrError): void {
    const isFirst = !this.#unsendable.has(kind)
    this.#unsendable.set(kind, error)
    if (isFirst) this.#ports.note?.({ event: 'message_unsendable', fields: { kind, error } })
  }

  async #load(record: HubRecord, { isPutBack }: { readonly isPutBack: boolean }): Promise<Hub> {
    const { engine, store, clock } = this.#ports
    const { hubId } = record
    const session = await Session.load<NodeMessage, HubMessage>({
      engine,
      store,
      clock,
      remote: hubId,
      side: 'node',
      isPutBack,
      apply: (tx, message) => this.#inside.apply(tx, hubId, message),
      control: () => undefined,
      restarted: (_tx, restart, send) => this.#inside.restarted(hubId, restart, send),
      quarantined: (_tx, poison, send) => this.#inside.quarantined(hubId, poison, send),
      unsendable: (kind, error) => this.#noteUnsendable(kind, error),
      replace: (message) => (message.type === 'ended' ? withoutText(message) : undefined),
    })
    return { record, session, name: undefined, fences: new Map() }
  }
}

/** A result that no bound of ours caught and the wire refuses: the hub has to learn the end in any case. */
function withoutText(message: Extract<NodeMessage, { type: 'ended' }>): NodeMessage {
  const { outcome, reason, exitProof, stopCommandId } = message.result
  return {
    ...message,
    result: {
      outcome,
      text: '',
      hint: 'The result was larger than what can be sent; it is kept on its node.',
      denied: [],
      usage: noUsage,
      messages: [],
      details: {},
      ...(reason === undefined ? {} : { reason }),
      ...(exitProof === undefined ? {} : { exitProof }),
      ...(stopCommandId === undefined ? {} : { stopCommandId }),
    },
  }
}

function timeout(ports: NodePorts, delayMs: number): { readonly signal: AbortSignal; readonly cancel: () => void } {
  const controller = new AbortController()
  const timer = ports.clock.after(delayMs, () => controller.abort())
  return { signal: controller.signal, cancel: () => timer.cancel() }
}
