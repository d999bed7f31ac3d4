import { NfltrError } from '../core/errors.ts'
import type { AccountLine, AccountPage } from '../core/hub-account.ts'
import type { NodeAccount } from '../core/node-account.ts'
import type { Clock } from '../ports/clock.ts'
import type {
  BackupDocument,
  Hold,
  HubApi,
  HubStatusDocument,
  ReceiptDocument,
  SessionIdentity,
  ToolCall,
  ToolReply,
} from '../ports/hub-api.ts'
import type { Liveness } from '../ports/liveness.ts'
import type { Peers } from '../ports/peers.ts'
import type { Random } from '../ports/random.ts'
import type { Store } from '../ports/store.ts'
import type { Engine } from '../runtime/engine.ts'
import { accountPage, turnLines } from './account.ts'
import { type Assembly, assemble } from './assembly.ts'
import { answerCall } from './calls.ts'
import { logsPage, showAgent, statusDocument } from './documents.ts'
import type { Holder } from './holder.ts'
import { receiptOf } from './receipt.ts'
import type { HubFacts } from './world.ts'

export interface HubPorts {
  readonly engine: Engine
  readonly store: Store
  readonly peers: Peers
  readonly clock: Clock
  readonly liveness: Liveness
  readonly random: Random
  readonly facts: HubFacts
  /** Writes the store into a file; absent where there are no files. */
  readonly backup?: (file: string) => Promise<BackupDocument>
}

/**
 * One project's hub: everything that was decided is rebuilt from the store, and its sessions are opened from here on.
 *
 * @throws {NfltrError} `store_damaged`, `store_newer`, `store_failed`
 */
export async function openHub(ports: HubPorts): Promise<Hub> {
  return new Hub(ports, await assemble(ports))
}

export class Hub implements HubApi {
  readonly #ports: HubPorts
  readonly #assembly: Assembly
  readonly #ended = Promise.withResolvers<void>()
  #idleSinceMs: number | undefined

  constructor(ports: HubPorts, assembly: Assembly) {
    this.#ports = ports
    this.#assembly = assembly
    void assembly.failed.then((error) => this.#ended.reject(error))
    void ports.engine.failed.then((error) => this.#ended.reject(error))
    this.#ended.promise.catch(() => undefined)
    assembly.world.changes.subscribe(() => this.#noteIdle())
    this.#noteIdle()
  }

  /**
   * Resolves once the hub was stopped. The process then closes it and ends.
   *
   * @throws {NfltrError} `stale_epoch` when another process of this hub took over; `store_failed` and what else makes
   *   going on impossible: the process has to end at once
   */
  run(): Promise<void> {
    return this.#ended.promise
  }

  /** Resolves once nobody has had any use of this hub for so long, in awake time. */
  idleFor(spanMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#assembly.onTick(() => {
        const sinceMs = this.#idleSinceMs
        if (sinceMs !== undefined && this.#ports.clock.nowMs() - sinceMs >= spanMs) resolve()
      })
    })
  }

  /**
   * Awake monotonic time since when no agent is active and no session holds the hub; undefined while it is of use. The
   * process ends itself `limits.hubIdleExitMs` after it.
   */
  get idleSince(): number | undefined {
    return this.#idleSinceMs
  }

  /** Ends sessions and timers; agents keep running. The store is the caller's to close. */
  async close(): Promise<void> {
    this.#assembly.close()
    await this.#ports.engine.settled().catch(() => undefined)
    this.#ended.resolve()
  }

  async hold(session: SessionIdentity): Promise<Hold> {
    const hold = await this.#holder.hold(session, () => this.#noteIdle())
    this.#noteIdle()
    return hold
  }

  async call(call: ToolCall): Promise<ToolReply> {
    this.#holder.assertMay(call)
    const { world } = this.#assembly
    await world.toldOf(agentsIn(call))
    const offerId = world.keys.offerIdOf(call.callKey)
    // Not waited for: whatever is answered is on disk, and so is all that was decided before it.
    void world.mailbox.decide({ type: 'requested', sessionKey: call.sessionKey, offerId })
    return { body: await answerCall(world, call) }
  }

  confirm(callKey: string): Promise<void> {
    const { keys, mailbox } = this.#assembly.world
    return mailbox.decide({ type: 'confirmed', offerId: keys.offerIdOf(callKey) })
  }

  withdraw(callKey: string): Promise<void> {
    const { keys, mailbox } = this.#assembly.world
    return mailbox.withdraw(keys.offerIdOf(callKey))
  }

  doubt(callKey: string): Promise<void> {
    const { keys, mailbox } = this.#assembly.world
    return mailbox.decide({ type: 'doubted', offerId: keys.offerIdOf(callKey) })
  }

  async status(): Promise<HubStatusDocument> {
    await this.#ports.engine.settled()
    return statusDocument(this.#assembly.world, { session: this.#holder.session, epoch: this.#assembly.epoch.current })
  }

  async showAgent(agentId: string): Promise<Record<string, unknown>> {
    await this.#assembly.world.toldOf([agentId])
    await this.#ports.engine.settled()
    return showAgent(this.#assembly.world, agentId)
  }

  async logs(agentId: string, options: { readonly fromSeq: number; readonly limit: number }) {
    await this.#ports.engine.settled()
    return await logsPage(this.#assembly.world, agentId, options)
  }

  async receipt(agentId: string, options: { readonly turn?: number }): Promise<ReceiptDocument> {
    return await receiptOf(this.#assembly.world, agentId, options)
  }

  async account(from?: string): Promise<AccountPage> {
    const { store, engine, facts } = this.#ports
    await engine.settled()
    const turns = (): readonly AccountLine[] => turnLines(this.#assembly.world)
    return await accountPage({ hubId: facts.hubId, store, sha256: facts.sha256, turns }, from)
  }

  async nodeAccount(peerId: string, after?: string): Promise<NodeAccount> {
    const { peers, facts } = this.#ports
    const { attempts, isLast } = await peers.askAccount(peerId, after === undefined ? {} : { after })
    const next = isLast ? undefined : attempts.at(-1)?.attemptId
    return {
      peerId,
      attempts: attempts.map((attempt) => ({ ...attempt, hubId: facts.hubId })),
      ...(next === undefined ? {} : { next }),
    }
  }

  async backup({ file }: { readonly file: string }): Promise<BackupDocument> {
    const { engine, backup } = this.#ports
    if (backup === undefined) throw new NfltrError('unsupported', 'This hub has no store that could be backed up.')
    await engine.settled()
    return await backup(file)
  }

  async stop(): Promise<void> {
    await this.#ports.engine.settled()
    this.#ended.resolve()
  }

  get #holder(): Holder {
    return this.#assembly.holder
  }

  #noteIdle(): void {
    const isUsed = this.#holder.session !== undefined || this.#assembly.world.agents.active().length > 0
    this.#idleSinceMs = isUsed ? undefined : (this.#idleSinceMs ?? this.#ports.clock.nowMs())
  }
}

/** The agents that a call is about. */
function agentsIn({ args }: ToolCall): readonly string[] {
  const { agent_id: one, agent_ids: several } = args
  return [one, ...(Array.isArray(several) ? several : [])].filter((id): id is string => typeof id === 'string')
}
