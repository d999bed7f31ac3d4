import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { type HubClient, hubClient, nodeClient } from '../../src/control/client.ts'
import type { NodeApi } from '../../src/ports/hub-api.ts'
import { type Machine, newMachine, type Running } from '../../test/e2e/machine.ts'
import { processesTouching } from '../soak/leftovers.ts'
import { Session } from '../soak/session.ts'
import { until, untilTrue } from '../soak/until.ts'
import type { BenchOptions } from './figure.ts'

export interface Endpoint {
  readonly socketPath: string
  readonly token: string
}

export interface Mark {
  readonly key: string
  readonly what: 'given' | 'synced'
  readonly atMs: number
}

/** The session that this process is to a hub that it holds. */
export const sessionKey = 'bench-session'

/** A frozen or starting process must not hold a look back for long. */
const lookBoundMs = 2_000

/**
 * Two machines of real processes below one folder: an owner with hub and session, and a node with the scripted agent. All
 * of it ends with {@link Bed.end}.
 */
export class Bed {
  readonly folder: string
  readonly owner: Machine
  readonly worker: Machine
  readonly scenario: string
  /** The launcher of the scripted agent, as the node runs it. */
  readonly program: string
  readonly nodeFlags: readonly string[]
  node: Running
  readonly #marks: string
  readonly #sessions: Session[] = []

  private constructor(parts: {
    folder: string
    owner: Machine
    worker: Machine
    scenario: string
    program: string
    marks: string
    nodeFlags: readonly string[]
    node: Running
  }) {
    this.folder = parts.folder
    this.owner = parts.owner
    this.worker = parts.worker
    this.scenario = parts.scenario
    this.program = parts.program
    this.nodeFlags = parts.nodeFlags
    this.node = parts.node
    this.#marks = parts.marks
  }

  /** @param marks - whether hub and node note when records reach the disk */
  static async start(options: BenchOptions, { marks: isMarking = false } = {}): Promise<Bed> {
    const folder = mkdtempSync(join(options.folder, 'bed-'))
    process.env['TMPDIR'] = folder
    const marks = join(folder, 'marks')
    writeFileSync(marks, '')
    const hook = pathToFileURL(join(import.meta.dirname, 'store-marks.js')).href
    const env = {
      TMPDIR: folder,
    }
    // As flags: an adapter hands its own on to the hub that it starts, which does not get the whole environment.
    const program = isMarking ? ['--import', `${hook}?${marks}`, options.main] : [options.main]
    const owner = await newMachine({ program, env })
    const listen = `/ip4/127.0.0.1/tcp/${await freePort()}`
    const worker = await newMachine({
      program,
      env: { ...env, ANTHROPIC_API_KEY: 'sk-ant-test-0000', NFLTR_LISTEN: listen },
    })
    const scenario = join(folder, 'scenario.json')
    const agent = join(folder, 'agent')
    writeFileSync(scenario, JSON.stringify({ turns: {}, default: [{ say: 'done' }] }))
    const script = `#!/bin/sh\nexec '${process.execPath}' '${options.agent}' --scenario '${scenario}' "$@"\n`
    writeFileSync(agent, script, { mode: 0o755 })
    await owner.json(['mesh', 'create', '--name', 'owner'])
    const inviting = owner.start(['mesh', 'invite', '--name', 'worker'])
    const invite = await inviting.event('invite')
    const nodeFlags = ['node', 'join', '--claude', agent, '--max-agents', '64', '--allow-all-tools']
    const node = worker.start([...nodeFlags, '--invite-file', '-'], { input: String(invite['invite']) })
    await node.event('ready')
    await inviting.finished
    return new Bed({ folder, owner, worker, scenario, program: agent, marks, nodeFlags, node })
  }

  play(turns: Readonly<Record<string, readonly object[]>>): void {
    writeFileSync(this.scenario, JSON.stringify({ turns, default: [{ say: 'done' }] }))
  }

  async openSession(): Promise<Session> {
    const session = await Session.open(this.owner)
    this.#sessions.push(session)
    return session
  }

  /** Starts the hub, and holds it for this process as an adapter would for its session. */
  async holdHub(): Promise<{ readonly client: HubClient; readonly hubId: string }> {
    const session = await this.openSession()
    await session.tool('list_nodes', {})
    const { client, hubId } = await until('the hub answers', () => this.hub())
    await session.close()
    await untilTrue('the hub is free', async () => (await client.status()).state === 'free')
    await client.hold({ pid: process.pid, host: hostname(), since: new Date().toISOString(), sessionKey })
    return { client, hubId }
  }

  /** The project's hub, where one answers. */
  async hub(): Promise<{ readonly client: HubClient; readonly pid: number; readonly hubId: string } | undefined> {
    const endpoint = endpointOf(this.owner, 'hub-*.control.json')
    if (endpoint === undefined) return undefined
    const client = hubClient(endpoint)
    const bound = delay(lookBoundMs, undefined, { ref: false })
    const status = await Promise.race([client.status(), bound]).catch(() => undefined)
    return status === undefined ? undefined : { client, pid: status.pid, hubId: status.hub_id }
  }

  /** The node's control, where it is published. */
  nodeControl(): NodeApi | undefined {
    const endpoint = endpointOf(this.worker, 'node.control.json')
    return endpoint === undefined ? undefined : nodeClient(endpoint)
  }

  /** The node as a start of its owner or service would bring it back. */
  startNode(): Running {
    this.node = this.worker.start(this.nodeFlags)
    return this.node
  }

  marks(): readonly Mark[] {
    return readFileSync(this.#marks, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [key = '', what = '', atMs = ''] = line.split(' ')
        return { key, what: what === 'given' ? 'given' : 'synced', atMs: Number(atMs) }
      })
  }

  /** Ends what it started, each by its number, and removes the folder. */
  async end(): Promise<void> {
    for (const session of this.#sessions) if (!session.isGone) await session.close()
    await this.owner.run(['hub', 'stop'])
    this.node.kill('SIGTERM')
    await this.node.finished
    await until(
      'all processes of the bed end',
      () => (processesTouching(this.folder).length === 0 ? true : undefined),
      5_000,
    ).catch(() => undefined)
    for (const { pid } of processesTouching(this.folder)) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It had ended by itself.
      }
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** How a process of a machine is reached, where its record is there. */
export function endpointOf(machine: Machine, pattern: string): Endpoint | undefined {
  const [file] = globSync(join(machine.home, 'run', pattern))
  if (file === undefined) return undefined
  try {
    const record = JSON.parse(readFileSync(file, 'utf8')) as { socket: string; token: string }
    return { socketPath: record.socket, token: record.token }
  } catch {
    // It is just being replaced.
    return undefined
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
