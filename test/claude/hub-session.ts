import { spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { inject } from 'vitest'
import { toolResultOf } from '../fixtures/model/conversation.ts'
import type { ModelStep } from '../fixtures/model/steps.ts'
import { eventually, type RealMesh } from './real-mesh.ts'

/** A real `claude -p` in the hub's project folder, whose model is scripted and whose MCP server is ours. */
export interface HubSession {
  readonly pid: number
  /** What a tool returned to the model, as the model was sent it in a later request. */
  returned(toolUseId: string): Promise<Reply>
  readonly finished: Promise<HubEnd>
}

export type Reply = Readonly<Record<string, unknown>>

export interface HubEnd {
  readonly code: number | null
  /** The text of the session's last answer. */
  readonly stdout: string
  readonly stderr: string
}

export interface Entry {
  readonly agent_id: string
  readonly task_id: string
  readonly delivery_id: number
  readonly turn: number
  readonly outcome: string
  readonly text: string
  readonly reason?: string
  readonly hint?: string
  readonly details?: { readonly denied?: readonly { readonly tool: string; readonly input: string }[] }
  readonly messages?: readonly { readonly message_id: string; readonly state: string }[]
}

export function entries(reply: Reply): readonly Entry[] {
  return reply['results'] as readonly Entry[]
}

let sessions = 0

/** Starts a session that is given `prompt` and whose model goes through `steps`. */
export async function hubSession(
  mesh: RealMesh,
  steps: readonly ModelStep[],
  options: { readonly server?: 'config' | 'added' } = {},
): Promise<HubSession> {
  sessions += 1
  const run = `hub-${sessions}`
  mesh.model.script(run, steps)
  const configDir = join(mesh.scratch, `claude-${run}`)
  await mkdir(configDir)
  const env = sessionEnvironment(mesh, { run, configDir })
  const serverArgs = [...mesh.hub.program, 'mcp', '--toolset', 'hub']
  const flags = ['-p', 'Do the work.', '--allowedTools', 'mcp__nfltr']
  if (options.server === 'added') {
    const add = ['mcp', 'add', 'nfltr', '--', process.execPath, ...serverArgs]
    const added = await ended(launch(mesh, env, add))
    if (added.code !== 0) throw new Error(`claude mcp add ended with ${added.code}: ${added.stdout}${added.stderr}`)
  } else {
    const file = join(configDir, 'mcp-servers.json')
    const nfltr = { type: 'stdio', command: process.execPath, args: serverArgs }
    await writeFile(file, JSON.stringify({ mcpServers: { nfltr } }))
    flags.push('--mcp-config', file, '--strict-mcp-config')
  }
  const child = launch(mesh, env, flags)
  const finished = ended(child)
  let end: HubEnd | undefined
  void finished.then((value) => {
    end = value
  })
  return {
    pid: child.pid ?? -1,
    finished,
    returned: (toolUseId) =>
      eventually(`${toolUseId} returned`, () => {
        const bodies = mesh.model.requests(run).map((request) => toolResultOf(request.body, toolUseId))
        const found = bodies.find((body) => body !== undefined)
        if (found === undefined && end !== undefined) return { ended: end }
        return found === undefined ? undefined : { reply: found }
      }).then((seen) => {
        if ('ended' in seen)
          throw new Error(`the session ended before ${toolUseId} returned: ${JSON.stringify(seen.ended)}`)
        if (typeof seen.reply !== 'object' || seen.reply === null)
          throw new Error(`${toolUseId} returned: ${seen.reply}`)
        return seen.reply as Reply
      }),
  }
}

function sessionEnvironment(
  mesh: RealMesh,
  of: { readonly run: string; readonly configDir: string },
): Readonly<Record<string, string>> {
  return {
    ...mesh.hub.env,
    CLAUDE_CONFIG_DIR: of.configDir,
    ANTHROPIC_API_KEY: 'sk-ant-key-of-the-hub',
    ANTHROPIC_BASE_URL: mesh.model.runUrl(of.run),
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
  }
}

function launch(mesh: RealMesh, env: Readonly<Record<string, string>>, args: readonly string[]) {
  return spawn(inject('claudeBinary'), args, { cwd: mesh.hub.project, env, stdio: ['ignore', 'pipe', 'pipe'] })
}

function ended(child: ReturnType<typeof launch>): Promise<HubEnd> {
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, stdout, stderr }))
  })
}

/** One call of one of our tools; a later step finds its result under `id`. */
export function call(tool: string, id: string, input: object): { name: string; id: string; input: object } {
  return { name: `mcp__nfltr__${tool}`, id, input }
}

/** Starts an agent with this brief; its id is `{"$ref": "spawned.agent_id"}` from then on. */
export function spawnStep(brief: string, more: object = {}): ModelStep {
  return { tools: [call('spawn_agent', 'spawned', { brief, ...more })] }
}

export const theAgent: { readonly $ref: 'spawned.agent_id' } = { $ref: 'spawned.agent_id' }

/** Waits for the agent's result under an id of its own. */
export function waitStep(id: string, timing: { readonly waitForFile?: string } = {}): ModelStep {
  return { ...timing, tools: [call('wait_for_agents', id, { agent_ids: [theAgent] })] }
}
