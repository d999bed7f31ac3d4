import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import process from 'node:process'
import type { Flags } from './flags.ts'
import { dashed, findHistory, type History, historyPath, openHistory } from './history.ts'
import { type Line, resultLine } from './lines.ts'
import { noTokens } from './usage.ts'
import { ScenarioError } from './values.ts'

/** A launch the real CLI refuses: its words on standard error, perhaps a result line, and status 1. */
export class StartError extends Error {
  override readonly name = 'StartError'
  readonly line: Line | undefined

  constructor(message: string, line?: Line) {
    super(message)
    this.line = line
  }
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** @throws {StartError} what the real CLI refuses; {@link ScenarioError} what the agent does not play */
export function checkStart(flags: Flags): void {
  if (!flags.print) throw new ScenarioError('only print mode (-p) is played')
  if (flags.outputFormat === 'stream-json' && !flags.verbose) {
    throw new StartError('Error: When using --print, --output-format=stream-json requires --verbose')
  }
  if (flags.inputFormat === 'stream-json' && flags.outputFormat !== 'stream-json') {
    throw new StartError('Error: --input-format=stream-json requires output-format=stream-json.')
  }
  if (flags.inputFormat === 'text' && flags.prompt === undefined) {
    throw new ScenarioError('a prompt from standard input is not played: give it as an argument')
  }
  const root = process.getuid?.() === 0 && process.env['IS_SANDBOX'] !== '1'
  if (flags.permissionMode === 'bypassPermissions' && root) {
    throw new StartError('--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons')
  }
  const file = flags.appendSystemPromptFile
  if (file !== undefined && !existsSync(file))
    throw new StartError(`Error: Append system prompt file not found: ${file}`)
  if (flags.settings !== undefined && !flags.settings.trimStart().startsWith('{')) {
    throw new ScenarioError('--settings takes JSON here, not a file')
  }
}

export interface OpenedSession {
  readonly history: History
  readonly cwd: string
  readonly configDir: string
  resultPath(toolUseId: string): string
}

/** Finds or begins the history, with the refusals of the real CLI. */
export function openSession(flags: Flags): OpenedSession {
  const cwd = process.cwd()
  const configDir = process.env['CLAUDE_CONFIG_DIR'] || join(homedir(), '.claude')
  refuseSettings(flags, { cwd, configDir })
  const previous = flags.resume === undefined ? undefined : resumed(flags, configDir)
  const sessionId = sessionIdOf(flags, previous)
  const fresh = previous === undefined || flags.forkSession
  if (fresh && flags.sessionId !== undefined && findHistory(configDir, sessionId) !== undefined) {
    throw new StartError(`Error: Session ID ${sessionId} is already in use.`)
  }
  const path = fresh ? historyPath(configDir, cwd, sessionId) : previous
  const options = { sessionId, path: flags.persist ? path : undefined }
  const history = openHistory(previous === undefined ? options : { ...options, previous })
  const results = join(configDir, 'projects', dashed(cwd), sessionId, 'tool-results')
  return { history, cwd, configDir, resultPath: (toolUseId) => join(results, `${toolUseId}.txt`) }
}

function sessionIdOf(flags: Flags, previous: string | undefined): string {
  const { sessionId } = flags
  if (sessionId !== undefined && !uuidPattern.test(sessionId)) {
    throw new StartError('Error: Invalid session ID. Must be a valid UUID.')
  }
  if (previous === undefined || flags.forkSession) return sessionId ?? randomUUID()
  if (sessionId !== undefined) {
    throw new StartError('Error: --session-id with --continue or --resume also needs --fork-session.')
  }
  return basename(previous, '.jsonl')
}

function resumed(flags: Flags, configDir: string): string {
  const name = flags.resume ?? ''
  const found = name.endsWith('.jsonl') && existsSync(name) ? name : findHistory(configDir, name)
  if (found !== undefined) return found
  const message = `No conversation found with session ID: ${name}`
  throw new StartError(message, missingResult(name, message))
}

function missingResult(sessionId: string, message: string): Line {
  const { terminal_reason: _none, ...line } = resultLine({
    sessionId,
    subtype: 'error_during_execution',
    isError: true,
    terminalReason: '',
    stopReason: null,
    numTurns: 0,
    resultIndex: 0,
    durationMs: 0,
    denials: [],
    uuids: [],
    model: '',
    turn: noTokens,
    session: noTokens,
    extra: { errors: [message] },
  })
  return line
}

/**
 * Settings files are not played, so a launch that would load one is refused: a test that forgot to keep a repository's
 * settings out must fail here, too, and not only with the real CLI.
 */
function refuseSettings(flags: Flags, places: { cwd: string; configDir: string }): void {
  const files: Readonly<Record<string, string>> = {
    user: join(places.configDir, 'settings.json'),
    project: join(places.cwd, '.claude', 'settings.json'),
    local: join(places.cwd, '.claude', 'settings.local.json'),
  }
  for (const source of flags.settingSources) {
    const file = files[source]
    if (file === undefined) throw new ScenarioError(`--setting-sources: ${source} is not known`)
    if (existsSync(file)) throw new ScenarioError(`this launch would load ${file}`)
  }
}
