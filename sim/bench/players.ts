import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import type { AttemptRef, HubMessage, NodeMessage, SessionAccept, SessionOpen } from '../../src/core/messages.ts'
import { noUsage } from '../../src/core/model.ts'
import { sha256 } from '../../src/identity/hash.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import { certifyProcess, ensureKey, loadMachine } from '../../src/identity/mesh-setup.ts'
import { makeReceipt } from '../../src/identity/receipts.ts'
import { createMesh, type MeshHost } from '../../src/mesh/peers.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { bootId } from '../../src/platform/process-table.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { Link } from '../../src/ports/peers.ts'
import { Engine } from '../../src/runtime/engine.ts'
import { Session } from '../../src/runtime/session.ts'
import { openHome } from '../../src/store/home/home.ts'
import { openLevelStore } from '../../src/store/level-store.ts'
import { until } from '../soak/until.ts'
import type { Bed } from './bed.ts'

const clock = systemClock()
const random = systemRandom()

/** The hub's side of a session, in this process, with the mesh, the runtime and the store of the product. */
export interface PlayedHub {
  /** Milliseconds of an empty command to the node and back. */
  probeMs(): Promise<number>
  end(): Promise<void>
}

export async function playHub(bed: Bed, nodePeerId: string): Promise<PlayedHub> {
  const home = openHome({ home: bed.owner.home, env: {} })
  const machine = await loadMachine(home)
  const key = await generateKey()
  const hubId = 'played-hub'
  const certify = (nowMs: number): Promise<Uint8Array> =>
    certifyProcess(machine, { peerId: peerIdOf(key), kind: 'hub', hubId, nowMs })
  const mesh = await createMesh({
    key,
    kind: 'hub',
    hubId,
    standing: {
      meshId: machine.meshId,
      membership: machine.files.membership,
      certificate: await certify(clock.wallMs()),
    },
    certify,
    files: home.mesh,
    clock,
    random,
    softwareVersion: '0.0.0-bench',
    listen: [],
  })
  mesh.want(nodePeerId)
  await connected(mesh, nodePeerId)
  const store = await openLevelStore(mkdtempSync(join(bed.folder, 'played-hub-')))
  const engine = new Engine(store)
  const session = await Session.load<HubMessage, NodeMessage>({
    engine,
    store,
    clock,
    remote: nodePeerId,
    side: 'hub',
    apply: () => undefined,
    control: () => undefined,
  })
  const link = await mesh.openSession(nodePeerId, { signal: AbortSignal.timeout(10_000) })
  await session.open(link, { hubId, epoch: 1, sessionNo: 1, fences: [] })
  await session.caughtUp()
  return {
    probeMs: async () => {
      const started = performance.now()
      await session.probe()
      return performance.now() - started
    },
    end: async () => {
      session.close()
      await mesh.close()
      await store.close()
    },
  }
}

/**
 * The node's side of a session, in this process, with the mesh, the runtime and the store of the product: claims are taken
 * at once and held, and end when they are told to. What a node writes to its disk for an end is written here too.
 */
export class PlayedNode {
  readonly peerId: string
  readonly #key: PrivateKey
  readonly #mesh: MeshHost
  readonly #engine: Engine
  readonly #closeStore: () => Promise<void>
  readonly #session: Session<NodeMessage, HubMessage>
  readonly #hubId: string
  readonly #briefs = new Map<string, string>()
  readonly #claimed: AttemptRef[] = []
  #isClosed = false
  #receiptHead = ''
  #receipts = Promise.resolve()

  private constructor(parts: {
    key: PrivateKey
    mesh: MeshHost
    engine: Engine
    closeStore: () => Promise<void>
    session: Session<NodeMessage, HubMessage>
    hubId: string
  }) {
    this.peerId = peerIdOf(parts.key)
    this.#key = parts.key
    this.#mesh = parts.mesh
    this.#engine = parts.engine
    this.#closeStore = parts.closeStore
    this.#session = parts.session
    this.#hubId = parts.hubId
  }

  /** In the place of the bed's node, which has ended. */
  static async start(bed: Bed, hubId: string): Promise<PlayedNode> {
    const home = openHome({ home: bed.worker.home, env: {} })
    const machine = await loadMachine(home)
    const key = await ensureKey(home, 'machine')
    const mesh = await createMesh({
      key,
      kind: 'node',
      standing: { meshId: machine.meshId, membership: machine.files.membership },
      files: home.mesh,
      clock,
      random,
      softwareVersion: '0.0.0-bench',
      listen: [String(bed.worker.env['NFLTR_LISTEN'])],
    })
    const store = await openLevelStore(mkdtempSync(join(bed.folder, 'played-node-')))
    const engine = new Engine(store)
    const session = await Session.load<NodeMessage, HubMessage>({
      engine,
      store,
      clock,
      remote: hubId,
      side: 'node',
      apply: (tx, message) => node.#apply(tx, message),
      control: () => undefined,
    })
    const node: PlayedNode = new PlayedNode({ key, mesh, engine, closeStore: () => store.close(), session, hubId })
    mesh.serveSessions((link) => void node.#serve(link).catch((error: unknown) => link.close(asError(error))))
    return node
  }

  /** Attempts that are claimed and have not ended. */
  get claimed(): number {
    return this.#claimed.length
  }

  /** Ends the oldest attempt with this text: the result is at the node now. */
  end(text: string): AttemptRef {
    const ref = this.#claimed.shift()
    if (ref === undefined) throw new Error('no attempt is claimed')
    void this.#engine.transact((tx) => {
      const result = {
        outcome: 'completed' as const,
        text,
        denied: [],
        usage: noUsage,
        messages: [],
        details: {},
        exitProof: 'cgroup_empty' as const,
      }
      // A node keeps the result and where the attempt stands beside what it sends.
      const bytes = new TextEncoder().encode(JSON.stringify(result))
      tx.put(`node/result/${ref.attemptId}`, bytes)
      tx.put(`node/attempt/${ref.attemptId}`, bytes)
      this.#session.send(tx, { type: 'ended', ref, result })
    })
    return ref
  }

  async close(): Promise<void> {
    this.#session.close()
    this.#isClosed = true
    await this.#receipts
    await this.#mesh.close()
    await this.#closeStore()
  }

  async #serve(link: Link): Promise<void> {
    const open: SessionOpen = await Session.readOpen(link, { signal: AbortSignal.timeout(10_000) })
    if (open.hubId !== this.#hubId) throw new Error(`${open.hubId} is not the hub of this bed`)
    await this.#session.accept(link, open, acceptance())
  }

  #apply(tx: Parameters<Parameters<Engine['transact']>[0]>[0], message: HubMessage): void {
    if (message.type === 'claim') {
      const { ref } = message
      this.#briefs.set(ref.attemptId, message.request.brief)
      this.#session.send(tx, { type: 'claimed', ref })
      this.#session.send(tx, { type: 'started', ref, sessionId: crypto.randomUUID() })
      tx.afterDurable(() => this.#claimed.push(ref))
    }
    if (message.type === 'collected') {
      const { ref, resultHash } = message
      this.#receipts = this.#receipts.then(() => this.#sign(ref, resultHash))
    }
  }

  /** One after the other, since each names the one before. */
  async #sign(ref: AttemptRef, resultHash: string): Promise<void> {
    if (this.#isClosed) return
    const nowMs = clock.wallMs()
    const brief = this.#briefs.get(ref.attemptId) ?? ''
    const receipt = await makeReceipt(this.#key, {
      hubId: this.#hubId,
      agentId: ref.agentId,
      taskId: ref.taskId,
      attemptId: ref.attemptId,
      attempt: 1,
      owner: this.peerId,
      inputsHash: Buffer.from(sha256(new TextEncoder().encode(brief))).toString('hex'),
      outcome: 'completed',
      resultHash,
      claimedAtMs: nowMs,
      endedAtMs: nowMs,
      settledAtMs: nowMs,
      previousHash: this.#receiptHead,
    })
    this.#receiptHead = receipt.receiptId
    await this.#engine.transact((tx) => this.#session.send(tx, { type: 'receipt', ref, receipt }))
  }
}

function acceptance(): Omit<SessionAccept & { readonly type: 'accept' }, 'type' | 'lanes'> {
  return {
    bootId: bootId(),
    inventory: [],
    capacity: { free: 4_096, running: 0, queued: 0 },
    card: {
      description: '',
      labels: {},
      capabilities: [],
      offers: [],
      maxAgents: 64,
      allows: { allTools: true, monitors: false, repos: [] },
      credential: 'api_key',
      version: '0.0.0-bench',
      os: 'linux',
      arch: 'x64',
    },
  }
}

async function connected(mesh: MeshHost, peerId: string): Promise<void> {
  await until('the node is connected', () =>
    mesh.connected().some((peer) => peer.peerId === peerId) ? true : undefined,
  )
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
