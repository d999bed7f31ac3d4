import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { NfltrError } from '../../core/errors.ts'
import { ensurePrivateFolder } from '../../platform/files.ts'
import type { AgentDriver, PreparedLaunch } from '../../ports/agent-driver.ts'
import type { Home } from '../../ports/home.ts'

/** The longest the program may take to start and answer, in milliseconds: a cold start of 400 MB takes seconds. */
const handshakeMs = 60_000

/** Settings that only the launch itself brought; anything else came from this machine or from a repository. */
const ownSource = 'flagSettings'

export interface Handshake {
  readonly tookMs: number
  /** Sources of settings that a clean launch does not have. */
  readonly foreignSettings: readonly string[]
}

/**
 * Launches the agent program exactly as a turn would, asks it two questions that need no model, and lets it end. Nothing is
 * sent to anyone.
 *
 * @throws {NfltrError} `launch_failed` when it cannot be prepared or started, or does not answer
 */
export async function shakeHands(driver: AgentDriver, home: Home): Promise<Handshake> {
  await ensurePrivateFolder(home.paths.node)
  const folder = await mkdtemp(join(home.paths.node, 'doctor-'))
  try {
    const [workspace, privateDir, tmpDir] = await Promise.all(
      ['workspace', 'private', 'tmp'].map(async (name) => {
        await mkdir(join(folder, name), { mode: 0o700 })
        return join(folder, name)
      }),
    )
    if (workspace === undefined || privateDir === undefined || tmpDir === undefined)
      throw new Error('no folders were made')
    const launch = await driver.prepare({
      attemptId: 'att_doctor',
      agentId: 'agt_doctor',
      taskId: 'tsk_doctor',
      turn: 1,
      machineName: 'doctor',
      sessionId: randomUUID(),
      isContinuation: false,
      workspace,
      privateDir,
      tmpDir,
      request: { brief: 'nothing' },
      firstMessageId: `msg_${'0'.repeat(32)}`,
      allowAllTools: false,
    })
    return await converse(launch)
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

async function converse(launch: PreparedLaunch): Promise<Handshake> {
  const startedAtMs = performance.now()
  const child = spawn(launch.program, [...launch.args], {
    cwd: launch.cwd,
    env: { ...launch.env, ...launch.secretEnv },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-2_000)
  })
  const over = setTimeout(() => child.kill('SIGKILL'), handshakeMs)
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const failed = new Promise<never>((_resolve, reject) => child.once('error', reject))
  failed.catch(() => undefined)
  child.stdin.on('error', () => undefined)
  ask(child.stdin, 'initialize')
  ask(child.stdin, 'get_settings')
  try {
    const settings = await Promise.race([answerTo(createInterface({ input: child.stdout }), 'get_settings'), failed])
    if (settings === undefined) {
      throw new NfltrError(
        'launch_failed',
        `Claude Code ended before it answered${stderr === '' ? '.' : `: ${stderr.trim().split('\n').at(-1)}`}`,
        {
          hint: 'Run the program by hand to see what is wrong: claude --version',
        },
      )
    }
    return { tookMs: Math.round(performance.now() - startedAtMs), foreignSettings: foreignSources(settings) }
  } finally {
    child.stdin.end()
    await ended
    clearTimeout(over)
  }
}

function ask(input: NodeJS.WritableStream, subtype: string): void {
  input.write(`${JSON.stringify({ type: 'control_request', request_id: subtype, request: { subtype } })}\n`)
}

type Fields = Readonly<Record<string, unknown>>

/** The response to one request; `undefined` when the program ended without one. */
async function answerTo(lines: AsyncIterable<string>, requestId: string): Promise<Fields | undefined> {
  for await (const text of lines) {
    const line = JSON.parse(text) as Fields
    const response = line['response'] as Fields | undefined
    if (line['type'] === 'control_response' && response?.['request_id'] === requestId)
      return (response['response'] ?? {}) as Fields
  }
  return undefined
}

function foreignSources(settings: Fields): readonly string[] {
  const sources = Array.isArray(settings['sources']) ? (settings['sources'] as Fields[]) : []
  return sources.map((entry) => String(entry['source'])).filter((source) => source !== ownSource)
}
