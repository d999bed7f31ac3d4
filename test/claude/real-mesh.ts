import { mkdir, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject, vi } from 'vitest'
import { type Machine, newMachine, type Running } from '../e2e/machine.ts'
import { type ScriptedModel, startModel } from '../fixtures/model/server.ts'
import type { ModelRequest, ModelStep } from '../fixtures/model/steps.ts'

/** Two machines joined by an invite, the node with the real agent program, and the model that both sides talk to. */
export interface RealMesh extends AsyncDisposable {
  readonly hub: Machine
  readonly node: Machine
  readonly model: ScriptedModel
  /** A folder of this mesh for what a test writes itself. */
  readonly scratch: string
  /** A folder of the node's machine that its agents are offered under the name `repo`. */
  readonly offered: string
  /** Temporary folders of the two machines: whatever is still in them at the end was left behind. */
  readonly temporary: readonly string[]
  /** What the agents' model says, by the text that begins a turn. */
  play(turns: Readonly<Record<string, readonly ModelStep[]>>): void
  /** A file in `scratch` that steps and commands wait for. */
  signal(name: string): Signal
  /** Where an agent works that was given no folder. */
  workspaceOf(agentId: unknown): Promise<string>
  /** The agents' requests of the main loop that hold this text, as they were sent. */
  agentRequests(text: string): readonly ModelRequest[]
  running(): Running
  restartNode(): Promise<void>
}

/** Something that waits goes on once the test says so. */
export interface Signal {
  readonly file: string
  give(): Promise<void>
}

/** The run of the model that agents talk to; hub sessions have runs of their own. */
export const agentsRun = 'agents'

/** What the node signs in with: where it goes is what several tests are about. */
export const nodeKey = 'sk-ant-key-of-the-node'

export async function realMesh(options: { readonly nodeFlags?: readonly string[] } = {}): Promise<RealMesh> {
  const model = await startModel()
  const scratch = await realpath(await mkdtemp(join(tmpdir(), 'nfltr-real-')))
  const temporary = [join(scratch, 'tmp-hub'), join(scratch, 'tmp-node')]
  const offered = join(scratch, 'offered')
  for (const folder of [...temporary, offered]) await mkdir(folder)
  const [hubTmp = '', nodeTmp = ''] = temporary
  const hub = await newMachine({ env: { TMPDIR: hubTmp } })
  const node = await newMachine({
    env: { TMPDIR: nodeTmp, ANTHROPIC_API_KEY: nodeKey, ANTHROPIC_BASE_URL: model.runUrl(agentsRun) },
  })
  const offer = ['--max-agents', '3', '--offer', `repo=${offered}`]
  const flags = ['node', 'join', '--claude', inject('claudeBinary'), ...offer, ...(options.nodeFlags ?? [])]
  let current: Running | undefined
  const running = (): Running => {
    if (current === undefined) throw new Error('the node was not started')
    return current
  }
  const dispose = async (): Promise<void> => {
    await hub[Symbol.asyncDispose]()
    await node[Symbol.asyncDispose]()
    await model.close()
    await rm(scratch, { recursive: true, force: true })
  }
  try {
    await hub.json(['mesh', 'create', '--name', 'laptop'])
    const inviting = hub.start(['mesh', 'invite', '--name', 'vm1'])
    const { invite } = await inviting.event('invite')
    current = node.start([...flags, '--invite-file', '-'], { input: String(invite) })
    await current.event('joined')
    await current.event('ready')
    await inviting.event('joined')
    await inviting.finished
  } catch (error) {
    await dispose()
    throw error
  }
  return {
    hub,
    node,
    model,
    scratch,
    offered,
    temporary,
    play: (byMessage) => model.script(agentsRun, { byMessage }),
    signal: (name) => {
      const file = join(scratch, name)
      return { file, give: () => writeFile(file, '') }
    },
    workspaceOf: async (agentId) => {
      const folder = join(node.home, 'node', 'agents', String(agentId))
      const [first = ''] = await readdir(folder)
      return join(folder, first, 'workspace')
    },
    agentRequests: (text) =>
      model.requests(agentsRun).filter((request) => request.main && JSON.stringify(request.body).includes(text)),
    running,
    restartNode: async () => {
      current = node.start(flags)
      await current.event('ready')
    },
    [Symbol.asyncDispose]: dispose,
  }
}

/** Waits until `look` finds something; what it last threw, or that it found nothing, is the error. */
export async function eventually<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  return await vi.waitFor(
    async () => {
      const found = await look()
      if (found === undefined) throw new Error(`not yet: ${what}`)
      return found
    },
    { timeout: 60_000, interval: 25 },
  )
}
