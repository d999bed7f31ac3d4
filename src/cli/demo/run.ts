import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { NfltrError } from '../../core/errors.ts'
import { processesOfFolder } from '../../platform/processes-of-folder.ts'
import { openHome } from '../../store/home/home.ts'
import { type Document, HubConversation } from '../commands/agent-call.ts'
import { auditHub } from '../commands/audit.ts'
import type { DemoEvent, DemoSummary } from '../commands/demo.ts'
import { auditWorld } from '../compose/audit-world.ts'
import { connectHub } from '../compose/hub-starter.ts'
import type { Context } from '../compose.ts'
import { type DemoMachine, type DemoProcess, run, start } from './machine.ts'
import { claudeScene, type Scene, scriptedScene } from './scene.ts'

/** How long the whole demo may take before it gives up, in milliseconds; with the real program, whose turns take longer. */
const boundMs = { scripted: 60_000, claude: 600_000 } as const

/** How long what was told to end may take for it before it counts as left behind, in milliseconds. */
const endingMs = 10_000

/** How often it is looked whether the agents run, and whether all have ended, in milliseconds. */
const lookEveryMs = 50

type Tell = (event: DemoEvent) => void

/**
 * The main job on one computer: a mesh of three homes, two of them nodes, three agents at once, one steered, one stopped,
 * one whose node is killed in the middle of its turn. Everything is counted, and looked for afterwards in the process
 * table.
 */
export async function runDemo(
  context: Context,
  options: { readonly withClaude: boolean; readonly home?: string },
  tell: Tell,
): Promise<DemoSummary> {
  const folder = await mkdtemp(join(tmpdir(), 'nfltr-demo-'))
  const demo = new Demo(context, folder, tell)
  try {
    const scene = options.withClaude ? claudeScene(folder) : await scriptedScene(folder)
    const credential = options.withClaude
      ? await realCredential(context, options.home)
      : { ANTHROPIC_API_KEY: 'scripted' }
    await demo.setUp(scene, credential)
    const signal = AbortSignal.timeout(options.withClaude ? boundMs.claude : boundMs.scripted)
    const counts = await demo.perform(scene, signal)
    const isClean = await demo.audit()
    await demo.close()
    const leftBehind = await leftIn(folder)
    const lost = counts.agents - counts.results
    return {
      ok: isClean && lost === 0 && counts.duplicates === 0 && leftBehind === 0,
      ...counts,
      lost,
      left_behind: leftBehind,
    }
  } finally {
    await demo.close()
    // Keepers end a moment after their turns, and may write their last words while this goes on.
    await rm(folder, { recursive: true, force: true, maxRetries: 10 })
  }
}

class Demo {
  readonly #context: Context
  readonly #folder: string
  readonly #tell: Tell
  readonly #nodes = new Map<
    string,
    { readonly machine: DemoMachine; process: DemoProcess; readonly flags: readonly string[] }
  >()
  #hub: DemoMachine | undefined
  #conversation: HubConversation | undefined

  constructor(context: Context, folder: string, tell: Tell) {
    this.#context = context
    this.#folder = folder
    this.#tell = tell
  }

  async setUp(scene: Scene, credential: Readonly<Record<string, string>>): Promise<void> {
    const hub = this.#machine('laptop', {})
    this.#hub = hub
    await run(hub, ['mesh', 'create', '--name', 'laptop'])
    this.#tell({ event: 'mesh', text: 'A mesh: laptop owns it.' })
    for (const [name, slots] of [
      ['alpha', '1'],
      ['beta', '2'],
    ] as const) {
      const machine = this.#machine(name, credential)
      const inviting = start(hub, ['mesh', 'invite', '--name', name, '--listen', loopback])
      const invite = String((await inviting.event('invite'))['invite'])
      const program = scene.program === undefined ? [] : ['--claude', scene.program]
      const flags = ['node', 'join', '--max-agents', slots, '--listen', loopback, ...program]
      const process = start(machine, [...flags, '--invite-file', '-'], invite)
      this.#nodes.set(name, { machine, process, flags })
      await process.event('ready')
      await inviting.event('joined')
      await inviting.ended
      this.#tell({
        event: 'joined',
        name,
        text: `${name} joined with a single-use invite and offers ${slots} slot${slots === '1' ? '' : 's'}.`,
      })
    }
    this.#conversation = new HubConversation(this.#context.io, await this.#connect(hub))
    await this.#conversation.hold()
  }

  async perform(scene: Scene, signal: AbortSignal): Promise<{ agents: number; results: number; duplicates: number }> {
    const report = await this.#spawn('report', { brief: scene.report, machine: 'alpha' })
    const listener = await this.#spawn('listener', { brief: scene.listen, machine: 'beta' })
    const endless = await this.#spawn('endless', { brief: scene.endless, machine: 'beta' })
    await this.#untilRunning([report, listener, endless], signal)
    this.#tell({ event: 'running', text: 'All three are running.' })
    const sent = await this.#call('send_message', { agent_id: listener, text: scene.word })
    this.#tell({
      event: 'steered',
      agent_id: listener,
      how: sent['how'],
      text: `listener was sent a word (${String(sent['how'])}).`,
    })
    await this.#killAndRestart('alpha')
    const stopped = await this.#call('stop_agent', { agent_id: endless })
    const receipt = stopped['receipt'] as Document | undefined
    this.#tell({
      event: 'stopped',
      agent_id: endless,
      exit_proof: receipt?.['exit_proof'],
      text: `endless was stopped; proof that its processes are gone: ${String(receipt?.['exit_proof'])}.`,
    })
    await writeFile(scene.goFile, '')
    return await this.#collect(
      new Map([
        [report, 'report'],
        [listener, 'listener'],
        [endless, 'endless'],
      ]),
      signal,
    )
  }

  /** Holds the history that was made against every promise. @returns whether it kept them all */
  async audit(): Promise<boolean> {
    if (this.#hub === undefined) throw new Error('the demo has not been set up')
    const { io, env } = this.#context
    const world = auditWorld({ io, env: { ...env, NFLTR_HOME: this.#hub.home }, version: this.#context.version })
    const { events, receipts, violations } = await auditHub(world, { hubId })
    const text = `The audit read ${events} events and ${receipts} receipts, and found ${violations.length} violations.`
    this.#tell({ event: 'audit', ok: violations.length === 0, events, receipts, violations, text })
    return violations.length === 0
  }

  async close(): Promise<void> {
    const conversation = this.#conversation
    this.#conversation = undefined
    await conversation?.finish().catch(() => undefined)
    if (this.#hub !== undefined) {
      await run(this.#hub, ['hub', 'stop', '--hub-id', hubId]).catch(() => undefined)
      this.#hub = undefined
    }
    for (const { process } of this.#nodes.values()) process.kill('SIGTERM')
    for (const { process } of this.#nodes.values()) await process.ended
    this.#nodes.clear()
  }

  #machine(name: string, credential: Readonly<Record<string, string>>): DemoMachine {
    const { PATH = '', HOME = '', LANG = 'C.UTF-8' } = this.#context.env
    return { home: join(this.#folder, name), env: { PATH, HOME, LANG, NFLTR_LAN: 'false', ...credential } }
  }

  async #connect(hub: DemoMachine) {
    const home = openHome({ home: hub.home, env: hub.env })
    const project = { hubId, folder: this.#folder }
    return await connectHub({ home, homeFlag: hub.home, project, env: hub.env, listen: [loopback] })
  }

  async #spawn(title: string, spawn: { readonly brief: string; readonly machine: string }): Promise<string> {
    const reply = await this.#call('spawn_agent', { title, ...spawn })
    const agentId = String(reply['agent_id'])
    this.#tell({
      event: 'spawned',
      agent_id: agentId,
      title,
      machine: spawn.machine,
      text: `${title} starts on ${spawn.machine}.`,
    })
    return agentId
  }

  #call(tool: Parameters<HubConversation['call']>[0], args: Document): Promise<Document> {
    if (this.#conversation === undefined) throw new Error('the demo has not been set up')
    return this.#conversation.call(tool, args)
  }

  async #untilRunning(agents: readonly string[], signal: AbortSignal): Promise<void> {
    for (;;) {
      const { agents: rows } = (await this.#call('list_agents', {})) as { agents: readonly Document[] }
      if (signal.aborted) throw tooSlow('did not get its agents started', rows)
      const running = rows.filter((row) => row['state'] !== 'queued' && row['state'] !== 'starting')
      if (agents.every((id) => running.some((row) => row['agent_id'] === id))) return
      await setTimeout(lookEveryMs)
    }
  }

  async #killAndRestart(name: string): Promise<void> {
    const node = this.#nodes.get(name)
    if (node === undefined) throw new Error(`there is no node ${name}`)
    node.process.kill('SIGKILL')
    await node.process.ended
    this.#tell({ event: 'killed', name, text: `${name}'s node was killed with -9 in the middle of report's turn.` })
    node.process = start(node.machine, node.flags)
    await node.process.event('ready')
    this.#tell({ event: 'restarted', name, text: `${name} is back and took its agent over.` })
  }

  /** Takes results as they arrive, and then looks once more whether anything comes twice. */
  async #collect(titles: ReadonlyMap<string, string>, signal: AbortSignal) {
    const counts = { agents: titles.size, results: 0, duplicates: 0 }
    const seen = new Set<string>()
    for (let isLast = false; !isLast; ) {
      isLast = seen.size === titles.size
      const reply = await this.#call('wait_for_agents', { timeout_ms: isLast ? 0 : 5_000 })
      for (const result of reply['results'] as readonly Document[]) {
        const agentId = String(result['agent_id'])
        if (seen.has(agentId)) counts.duplicates += 1
        else counts.results += 1
        seen.add(agentId)
        const title = titles.get(agentId) ?? agentId
        const lines = String(result['text']).split('\n').length
        this.#tell({
          event: 'result',
          agent_id: agentId,
          outcome: result['outcome'],
          text: `  ${title}: ${String(result['outcome'])}, ${lines} line${lines === 1 ? '' : 's'} from ${String(result['machine'])}`,
        })
      }
      // Nothing is lost yet: what did not come in time would be called that.
      if (signal.aborted && !isLast) {
        const { agents } = (await this.#call('list_agents', {})) as { agents: readonly Document[] }
        throw tooSlow('did not get its results', agents)
      }
    }
    return counts
  }
}

const hubId = 'demo'
const loopback = '/ip4/127.0.0.1/tcp/0'

/** The credential of the person at the keyboard, for the nodes' environment. */
async function realCredential(context: Context, home: string | undefined): Promise<Record<string, string>> {
  const given: Record<string, string> = {}
  for (const name of ['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN', 'CLAUDE_CODE_OAUTH_TOKEN', 'ANTHROPIC_BASE_URL']) {
    const value = context.env[name]
    if (value !== undefined && value !== '') given[name] = value
  }
  const kept = await openHome({ ...(home === undefined ? {} : { home }), env: context.env }).credentials.load()
  const variables = {
    api_key: 'ANTHROPIC_API_KEY',
    auth_token: 'ANTHROPIC_AUTH_TOKEN',
    oauth_token: 'CLAUDE_CODE_OAUTH_TOKEN',
  } as const
  if (kept !== undefined) given[variables[kept.kind]] = kept.secret
  if (Object.keys(given).some((name) => name !== 'ANTHROPIC_BASE_URL')) return given
  throw new NfltrError('invalid_argument', 'The demo with Claude Code found no credential.', {
    hint: 'Set ANTHROPIC_API_KEY, or run `claude setup-token` and then `nfltr config add-credential --kind oauth-token`.',
    details: { argument: '--claude' },
  })
}

/** Processes of the demo that are still there when they have had the time to end. */
async function leftIn(folder: string): Promise<number> {
  const untilMs = performance.now() + endingMs
  for (;;) {
    const left = processesOfFolder(folder).length
    if (left === 0 || performance.now() > untilMs) return left
    await setTimeout(lookEveryMs)
  }
}

function tooSlow(what: string, agents: readonly Document[]): NfltrError {
  return new NfltrError('timed_out', `The demo ${what} in time.`, {
    hint: 'Run it again on a less busy machine.',
    details: { agents },
  })
}
