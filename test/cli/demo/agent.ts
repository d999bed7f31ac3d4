import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach } from 'vitest'
import { installFakeClaude } from '../../fixtures/fake-claude/install.ts'
import { agentEnvironment, launchFlags } from '../../fixtures/scenarios/launch.ts'
import { type Line, type Session, startSession } from '../../fixtures/scenarios/session.ts'
import { removeFolder } from '../../support/remove-folder.ts'

/** A machine for the scripted agent: its folders, and processes of one scenario. Gone after the test. */
export interface AgentMachine {
  readonly root: string
  readonly workspace: string
  readonly config: string
  readonly program: string
  /** A JSON file below the root. */
  write(path: string, content: object): Promise<void>
  /** With the common launch in front; `acceptEdits` unless the arguments say otherwise. */
  open(args?: readonly string[], env?: Readonly<Record<string, string>>): Session
  /** With these arguments and nothing else. */
  start(args: readonly string[], env?: Readonly<Record<string, string>>): Session
}

const machines: { root: string; sessions: Session[] }[] = []

afterEach(async () => {
  for (const { root, sessions } of machines.splice(0)) {
    for (const session of sessions) session.signal('SIGKILL')
    await removeFolder(root)
  }
})

export async function agentMachine(scenario: object): Promise<AgentMachine> {
  const root = await mkdtemp(join(tmpdir(), 'nfltr-agent-'))
  for (const folder of ['home', 'config', 'workspace']) await mkdir(join(root, folder))
  const program = await installFakeClaude(join(root, 'bin'), scenario)
  const sessions: Session[] = []
  machines.push({ root, sessions })
  const workspace = join(root, 'workspace')
  const environment = agentEnvironment({ root, baseUrl: 'http://127.0.0.1:9', apiKey: 'sk-ant-not-a-key' })
  const start: AgentMachine['start'] = (args, env = {}) => {
    const session = startSession({ command: program, args, cwd: workspace, env: { ...environment, ...env } })
    sessions.push(session)
    return session
  }
  return {
    root,
    workspace,
    config: join(root, 'config'),
    program,
    start,
    write: (path, content) => writeFile(join(root, path), JSON.stringify(content)),
    open: (args = [], env) => {
      const mode = args.some((arg) => arg.startsWith('--permission-mode')) ? [] : ['--permission-mode', 'acceptEdits']
      return start([...launchFlags, ...mode, ...args], env)
    },
  }
}

/** The process' own words after it has refused something. */
export async function refusal(session: Session): Promise<{ code: number | null; stderr: string }> {
  const { code } = await session.exited
  return { code, stderr: session.stderr() }
}

export async function resultOf(session: Session, index = 0): Promise<Line> {
  return await session.waitFor(`result ${index}`, (line) => line['type'] === 'result' && line['result_index'] === index)
}

/** Texts and tool results of the session, in order. */
export function contents(session: Session): readonly unknown[] {
  return session.lines.flatMap((line) => {
    const message = line['message'] as { content?: unknown } | undefined
    const blocks = Array.isArray(message?.content) ? (message.content as Record<string, unknown>[]) : []
    return blocks.flatMap((block) => block['text'] ?? block['content'] ?? [])
  })
}
