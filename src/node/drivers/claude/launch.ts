import type { PreparedLaunch, TurnLaunch } from '../../../ports/agent-driver.ts'
import {
  type ClaudePaths,
  type Credential,
  claudePaths,
  type Environment,
  environmentOf,
  secretEnvironment,
} from './environment.ts'

/** What the machine brings to a launch. */
export interface LaunchFacts {
  readonly program: string
  readonly own: Environment
  readonly passEnv: readonly string[]
  readonly shell: string
  readonly credential: Credential
  /** The program refuses to skip permissions for root, unless it is told that it is in a sandbox. */
  readonly isRoot: boolean
  readonly hasInstructions: boolean
}

/**
 * The launch of one turn: no settings of user, project or repository, no MCP server, no hook, no memory, no messages of
 * other sessions (rule 30, hazards M1–M4). What a repository says to its agents, its CLAUDE.md, is handed over as text.
 */
export function buildLaunch(turn: TurnLaunch, facts: LaunchFacts): PreparedLaunch {
  const paths = claudePaths(turn.privateDir)
  const env = environmentOf(turn, facts)
  return {
    program: facts.program,
    args: [
      ...[
        '-p',
        '--input-format',
        'stream-json',
        '--output-format',
        'stream-json',
        '--verbose',
        '--replay-user-messages',
      ],
      ...['--setting-sources', '', '--settings', JSON.stringify(settings), '--strict-mcp-config'],
      ...['--disable-slash-commands', '--system-prompt-snapshot', 'off'],
      ...(turn.isContinuation ? ['--resume', turn.sessionId] : ['--session-id', turn.sessionId]),
      ...requested(turn),
      ...instructions(paths, facts),
      ...permissions(turn, { isSandboxed: env['IS_SANDBOX'] !== undefined, isRoot: facts.isRoot }),
      '--disallowedTools',
      ...deniedTools,
    ],
    cwd: turn.workspace,
    env,
    secretEnv: secretEnvironment(facts.credential),
  }
}

const settings = { disableAllHooks: true, crossSessionInbound: 'refuse', autoMemoryEnabled: false }

/**
 * The first two reach other sessions of the user; the others come back after the turn's result, when its program has
 * exited. A switch in the environment takes most of them away already; a name the program does not have is no error.
 */
const deniedTools = [
  'SendMessage',
  'ListAgents',
  'Monitor',
  'ScheduleWakeup',
  'CronCreate',
  'CronDelete',
  'CronList',
  'EnterWorktree',
  'ExitWorktree',
]

/** Everything the program does with the machine; for where it cannot simply skip permissions. */
const allTools = [
  'Bash',
  'Edit',
  'Glob',
  'Grep',
  'NotebookEdit',
  'Read',
  'Skill',
  'Task',
  'TaskCreate',
  'TaskGet',
  'TaskList',
  'TaskStop',
  'TaskUpdate',
  'ToolSearch',
  'WebFetch',
  'WebSearch',
  'Write',
]

/** Only what the spawn asked for: no model, effort or budget is made up. */
function requested(turn: TurnLaunch): readonly string[] {
  const { model, effort, maxBudgetUsd, maxTurns } = turn.request
  return [
    ...(model === undefined ? [] : ['--model', model]),
    ...(effort === undefined ? [] : ['--effort', effort]),
    ...(maxBudgetUsd === undefined ? [] : ['--max-budget-usd', String(maxBudgetUsd)]),
    ...(maxTurns === undefined ? [] : ['--max-turns', String(maxTurns)]),
  ]
}

function instructions(paths: ClaudePaths, facts: LaunchFacts): readonly string[] {
  return facts.hasInstructions ? ['--append-system-prompt-file', paths.instructions] : []
}

/** Default deny: edits in the workspace and commands that only read. Without a host to ask, what would ask is denied. */
function permissions(
  turn: TurnLaunch,
  user: { readonly isRoot: boolean; readonly isSandboxed: boolean },
): readonly string[] {
  if (!turn.allowAllTools) return ['--permission-mode', 'acceptEdits']
  if (!user.isRoot || user.isSandboxed) return ['--dangerously-skip-permissions']
  return ['--permission-mode', 'acceptEdits', '--allowedTools', ...allTools]
}
