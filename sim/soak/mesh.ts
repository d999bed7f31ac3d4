import { existsSync, globSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { type HubClient, hubClient, nodeClient } from '../../src/control/client.ts'
import { isAlive, nameOf, type ProcessName } from '../../src/platform/process-table.ts'
import type { NodeApi } from '../../src/ports/hub-api.ts'
import { type Machine, newMachine, type Running, repository } from '../../test/e2e/machine.ts'
import { processesTouching } from './leftovers.ts'
import { Refused, Session } from './session.ts'
import { until } from './until.ts'

export const nodeName = 'vm1'

/** A process that is frozen answers never. */
const statusBoundMs = 2_000

/** Longer than what lies between an adapter and a session that does not read. */
const fillerBytes = 190_000

/**
 * Two machines of real processes below one folder, and the session of the first: a hub with its adapter, and a node with
 * its keepers and scripted agents. Everything of it, temporary files too, lies in that folder.
 */
export class Mesh {
  readonly folder: string
  readonly hubMachine: Machine
  readonly nodeMachine: Machine
  /** Where agents leave their mark: a line for each time that work was done. */
  readonly world: string
  readonly scenario: string
  session: Session
  /** All sessions there were, the last one last. */
  readonly sessions: Session[] = []
  /** An agent whose answer fills the pipe to a session that does not read. */
  filler = ''
  #node: Running
  #nodeProcess: ProcessName
  readonly #flags: readonly string[]

  private constructor(parts: {
    folder: string
    hubMachine: Machine
    nodeMachine: Machine
    session: Session
    node: Running
    flags: readonly string[]
  }) {
    this.folder = parts.folder
    this.hubMachine = parts.hubMachine
    this.nodeMachine = parts.nodeMachine
    this.session = parts.session
    this.sessions.push(parts.session)
    this.#node = parts.node
    this.#nodeProcess = nameOf(parts.node.pid)
    this.#flags = parts.flags
    this.world = join(parts.folder, 'world')
    this.scenario = join(parts.folder, 'scenario.json')
  }

  /** @param temporaryRoot - a folder with a short path, in which the mesh gets its own */
  static async start(temporaryRoot: string): Promise<Mesh> {
    const folder = mkdtempSync(join(temporaryRoot, 'nfltr-soak-'))
    // Homes and temporary files of all processes lie below it, so that whatever is left is found.
    process.env['TMPDIR'] = folder
    // Half of a start is reading the sources; there are hundreds of starts.
    const env = { TMPDIR: folder, NODE_COMPILE_CACHE: join(repository, 'node_modules/.cache/nfltr-soak') }
    const hubMachine = await newMachine({ env })
    // A node keeps its port, so that a hub that came back elsewhere finds it.
    const listen = `/ip4/127.0.0.1/tcp/${await freePort()}`
    const nodeMachine = await newMachine({
      env: { ...env, ANTHROPIC_API_KEY: 'sk-ant-test-0000', NFLTR_LISTEN: listen },
    })
    const program = join(folder, 'claude')
    const agent = join(repository, 'src/cli/demo/scripted-agent.ts')
    const scenario = join(folder, 'scenario.json')
    const script = `#!/bin/sh\nexec '${process.execPath}' '${agent}' --scenario '${scenario}' "$@"\n`
    writeFileSync(program, script, { mode: 0o755 })
    writeFileSync(join(folder, 'world'), '')
    await hubMachine.json(['mesh', 'create', '--name', 'laptop'])
    const inviting = hubMachine.start(['mesh', 'invite', '--name', nodeName])
    const invite = await inviting.event('invite')
    const flags = ['node', 'join', '--claude', program, '--max-agents', '2', '--allow-all-tools']
    const node = nodeMachine.start([...flags, '--invite-file', '-'], { input: String(invite['invite']) })
    await node.event('ready')
    await inviting.finished
    const session = await Session.open(hubMachine)
    const mesh = new Mesh({ folder, hubMachine, nodeMachine, session, node, flags })
    await mesh.#makeFiller()
    return mesh
  }

  get nodeHome(): string {
    return join(this.nodeMachine.home, 'node')
  }

  get nodeProcess(): ProcessName {
    return this.#nodeProcess
  }

  get isNodeAlive(): boolean {
    return isAlive(this.#nodeProcess)
  }

  play(turns: Readonly<Record<string, readonly object[]>>): void {
    writeFileSync(this.scenario, JSON.stringify({ turns }))
  }

  /** What agents did, a line for each time: attempt and brief. */
  deeds(): readonly { readonly attemptId: string; readonly brief: string }[] {
    return readFileSync(this.world, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => ({ attemptId: line.split(' ')[0] ?? '', brief: line.slice(line.indexOf(' ') + 1) }))
  }

  /** The hub of the session's project, where one answers now. */
  async hub(): Promise<{ readonly client: HubClient; readonly pid: number } | undefined> {
    const endpoint = controlRecord(join(this.hubMachine.home, 'run'), 'hub-*.control.json')
    if (endpoint === undefined) return undefined
    const client = hubClient(endpoint)
    try {
      const status = await Promise.race([client.status(), delay(statusBoundMs, undefined, { ref: false })])
      return status === undefined ? undefined : { client, pid: status.pid }
    } catch {
      return undefined
    }
  }

  /** The node's control, where one answers now. */
  async node(): Promise<NodeApi | undefined> {
    const endpoint = controlRecord(join(this.nodeMachine.home, 'run'), 'node.control.json')
    if (endpoint === undefined || !this.isNodeAlive) return undefined
    return nodeClient(endpoint)
  }

  /** Bytes that the hub has written to the log of its store: it grows with each decision. */
  hubLogBytes(): number {
    const logs = globSync(join(this.hubMachine.home, 'hubs/*/**/*.log'))
    return logs.reduce((sum, file) => sum + (existsSync(file) ? statSync(file).size : 0), 0)
  }

  agentFolders(): readonly string[] {
    return namesIn(join(this.nodeHome, 'agents')).filter((name) => !name.startsWith('tmp-'))
  }

  attemptFolders(): readonly string[] {
    return namesIn(join(this.nodeHome, 'attempts')).filter((name) => !name.startsWith('.'))
  }

  /** Starts the node again, as its owner or its service would, unless it runs. */
  async startNode(): Promise<void> {
    if (this.isNodeAlive) return
    await this.#node.finished
    this.#node = this.nodeMachine.start(this.#flags)
    this.#nodeProcess = nameOf(this.#node.pid)
    await this.#node.event('ready')
  }

  /** Opens another session where the last one is over, and waits until the hub belongs to it. */
  async openSession(): Promise<Session> {
    if (!this.session.isGone) return this.session
    this.session = await Session.open(this.hubMachine)
    this.sessions.push(this.session)
    await this.#takeHub()
    return this.session
  }

  /** The first call of a session takes the hub; that of the session before may not have been seen to end. */
  async #takeHub(): Promise<void> {
    await until('the hub belongs to the new session', async () => {
      try {
        return await this.session.tool('list_agents', { limit: 1 })
      } catch (error) {
        if (error instanceof Refused && error.code === 'hub_held') return undefined
        throw error
      }
    })
  }

  async #makeFiller(): Promise<void> {
    this.play({ filler: [{ say: 'f'.repeat(fillerBytes) }] })
    const { agent_id } = await this.session.tool('spawn_agent', { brief: 'filler' })
    await this.session.tool('wait_for_agents', { agent_ids: [agent_id], max_bytes: 200_000 })
    await this.session.tool('wait_for_agents', {})
    this.filler = String(agent_id)
  }

  /** Ends everything as its owners would, and tells what was left of it. */
  async stop(): Promise<readonly string[]> {
    await this.session.close()
    await this.hubMachine.run(['hub', 'stop'])
    this.#node.kill('SIGTERM')
    await this.#node.finished
    await until(
      'all processes end',
      () => (processesTouching(this.folder).length === 0 ? true : undefined),
      10_000,
    ).catch(() => undefined)
    const processes = processesTouching(this.folder).map(({ pid, command }) => `process ${pid}: ${command}`)
    return [...processes, ...this.#filesLeft()]
  }

  /** What nobody is to leave behind: sockets, places of processes that ended, unfinished files, temporary folders. */
  #filesLeft(): readonly string[] {
    const own = new Set(['claude', 'scenario.json', 'world', ...[this.hubMachine, this.nodeMachine].map(folderName)])
    const strangers = namesIn(this.folder).filter((name) => !own.has(name) && !name.startsWith('go-'))
    const runs = [this.hubMachine, this.nodeMachine].flatMap(({ home }) =>
      globSync(join(home, 'run/**/*'), { withFileTypes: true })
        .filter((entry) => !entry.isDirectory())
        .map((entry) => join(entry.parentPath, entry.name).slice(this.folder.length + 1)),
    )
    const temporary = namesIn(join(this.nodeHome, 'agents')).filter((name) => name.startsWith('tmp-'))
    return [...strangers, ...runs.filter((name) => !name.endsWith('/run.json')), ...temporary].map(
      (name) => `file ${name}`,
    )
  }

  /** Ends what runs, by its number, and removes the folder unless it is to be looked at. */
  dispose(options: { readonly keepsFolder: boolean }): void {
    for (const { pid } of processesTouching(this.folder)) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It had ended by itself.
      }
    }
    if (!options.keepsFolder) rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}

function folderName({ home }: Machine): string {
  return home.split('/').at(-2) ?? ''
}

function namesIn(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder) : []
}

/** How a process of a home is reached: its record in the run folder. */
function controlRecord(runFolder: string, pattern: string): { socketPath: string; token: string } | undefined {
  const [file] = globSync(join(runFolder, pattern))
  if (file === undefined) return undefined
  try {
    const record = JSON.parse(readFileSync(file, 'utf8')) as { socket: string; token: string }
    return { socketPath: record.socket, token: record.token }
  } catch {
    return undefined
  }
}
