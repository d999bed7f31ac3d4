import { NfltrError } from '../../../core/errors.ts'
import type { Reason } from '../../../core/model.ts'
import type { AgentDriver, PreparedLaunch, TurnLaunch } from '../../../ports/agent-driver.ts'
import type { Programs } from '../../../ports/programs.ts'
import { type Credential, claudePaths, type Environment, shellPrefixScript } from './environment.ts'
import { buildLaunch } from './launch.ts'
import { probeClaude } from './probe.ts'
import { beginTurn, type ClaudeTurn } from './state.ts'
import { step } from './turn.ts'

export interface ClaudeOptions {
  readonly programs: Programs
  /** `claude`, or an absolute path. */
  readonly program: string
  /** The node's own environment; only listed names of it reach an agent. */
  readonly own: Environment
  /** Further names that the machine's owner passes on. */
  readonly passEnv: readonly string[]
  readonly isRoot: boolean
  /** Asked before each turn, so that a renewed one is used from the next turn on. */
  readonly credential: () => Promise<Credential | undefined>
}

/** What a CLAUDE.md may hold: more would not fit beside the work. */
export const instructionsMaxBytes: number = 256 * 1024

/** Shells that the agent's commands run in, first one found: the program knows how to drive these two. */
const shells = ['/bin/bash', '/usr/bin/bash', 'bash', '/bin/zsh', 'zsh']

/** Claude Code as an agent program: one process per running turn, none while the agent is idle. */
export function createClaudeDriver(options: ClaudeOptions): AgentDriver<ClaudeTurn> {
  const { programs, own } = options
  return {
    probe: ({ signal }) => probeClaude(programs, { program: options.program, own, signal }),
    prepare: (turn) => prepare(turn, options),
    begin: beginTurn,
    step,
  }
}

async function prepare(turn: TurnLaunch, options: ClaudeOptions): Promise<PreparedLaunch> {
  const { programs, own } = options
  const searchPath = own['PATH'] ?? ''
  const program = await programs.find(options.program, searchPath)
  if (program === undefined) throw refused('claude_missing', `${options.program} was not found on this machine.`)
  const credential = await options.credential()
  if (credential === undefined) throw refused('not_logged_in', 'This machine has no credential for Claude Code.')
  const shell = await firstOf(shells, (candidate) => programs.find(candidate, searchPath))
  if (shell === undefined) throw refused('workspace', 'Neither bash nor zsh was found on this machine.')

  const paths = claudePaths(turn.privateDir)
  await programs.makeFolder(paths.configDir)
  await programs.writeText(paths.shellPrefix, shellPrefixScript, { isProgram: true })
  const hasInstructions = await handOverInstructions(turn, programs, paths.instructions)
  return buildLaunch(turn, {
    program,
    own,
    passEnv: options.passEnv,
    shell,
    credential,
    isRoot: options.isRoot,
    hasInstructions,
  })
}

/**
 * Copies the project's CLAUDE.md into the agent's private folder: read as data, and from then on nobody can exchange it.
 * A link, or a file that cannot be read as text, is no instruction: it must not put the machine's secrets into a prompt.
 */
async function handOverInstructions(turn: TurnLaunch, programs: Programs, target: string): Promise<boolean> {
  let text: string | undefined
  try {
    text = await programs.readText(`${turn.workspace}/CLAUDE.md`, { maxBytes: instructionsMaxBytes })
  } catch (error) {
    if (!(error instanceof NfltrError)) throw error
    throw refused('workspace', `CLAUDE.md could not be handed over: ${error.message}`)
  }
  if (text === undefined || text.trim() === '') {
    await programs.removeFile(target)
    return false
  }
  await programs.writeText(target, text, { isProgram: false })
  return true
}

async function firstOf(
  candidates: readonly string[],
  find: (candidate: string) => Promise<string | undefined>,
): Promise<string | undefined> {
  for (const candidate of candidates) {
    const found = await find(candidate)
    if (found !== undefined) return found
  }
  return undefined
}

function refused(reason: Reason, message: string): NfltrError {
  return new NfltrError('launch_failed', message, { details: { reason } })
}
