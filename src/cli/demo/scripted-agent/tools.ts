import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import process from 'node:process'
import { ScenarioError } from './values.ts'

/** What a call came to: what the model sees, and what the line on standard output carries beside it. */
export interface Outcome {
  /** Text, or content blocks (an MCP tool without structured content). */
  readonly content: unknown
  readonly isError: boolean
  readonly toolUseResult: unknown
  /** What a later `$ref` finds. */
  readonly value: unknown
  /** Stopped by the turn's abort signal. */
  readonly aborted?: boolean
}

export interface ToolContext {
  readonly cwd: string
  readonly sessionId: string
  readonly signal: AbortSignal
}

type Input = Readonly<Record<string, unknown>>

export const builtinTools = ['Bash', 'Edit', 'Read', 'WebFetch', 'Write'] as const

const inputs: Readonly<Record<string, readonly string[]>> = {
  Bash: ['command', 'description', 'timeout'],
  Edit: ['file_path', 'old_string', 'new_string', 'replace_all'],
  Read: ['file_path'],
  WebFetch: ['url', 'prompt'],
  Write: ['file_path', 'content'],
}

/** @throws {ScenarioError} on an input field the agent does not know */
export function checkInput(tool: string, input: Input): void {
  const known = inputs[tool] ?? []
  const stranger = Object.keys(input).find((key) => !known.includes(key))
  if (stranger !== undefined) throw new ScenarioError(`${tool} has no input ${stranger}; known: ${known.join(', ')}`)
}

export async function runTool(tool: string, input: Input, context: ToolContext): Promise<Outcome> {
  switch (tool) {
    case 'Bash':
      return await bash(input, context)
    case 'Read':
      return read(input, context)
    case 'Write':
      return write(input, context)
    case 'Edit':
      return edit(input, context)
    default:
      throw new ScenarioError(`${tool} is never run by the scripted agent: it has no network`)
  }
}

export function failed(message: string): Outcome {
  return { content: message, isError: true, toolUseResult: `Error: ${message}`, value: message }
}

/**
 * The command in a session of its own, as the real CLI starts it, so that it outlives a killed parent here as there.
 * The call ends with the shell: children it left in the background are not waited for.
 */
async function bash(input: Input, context: ToolContext): Promise<Outcome> {
  const command = required(input, 'command')
  const prefix = process.env['CLAUDE_CODE_SHELL_PREFIX']
  // One pipe for both streams keeps their order.
  const wrapped = `exec 2>&1; eval ${quoted(command)}`
  const script = prefix === undefined ? wrapped : `${prefix} ${quoted(wrapped)}`
  const child = spawn('/bin/bash', ['-c', script], {
    cwd: context.cwd,
    detached: true,
    env: shellEnvironment(context.sessionId),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  const kill = (): void => {
    // The whole session group; the shell may have gone on its own in between.
    if (child.pid !== undefined) signalGroup(child.pid)
  }
  if (context.signal.aborted) kill()
  context.signal.addEventListener('abort', kill)
  const timeoutMs = typeof input['timeout'] === 'number' ? input['timeout'] : undefined
  const timer = timeoutMs === undefined ? undefined : setTimeout(kill, timeoutMs)
  const closed = new Promise<void>((done) => child.once('close', () => done()))
  const exitCode = await new Promise<number>((done, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => done(code ?? 137))
  })
  // A child left in the background holds the pipe open: what is in it by now is the output.
  await Promise.race([closed, new Promise((done) => setTimeout(done, 100).unref())])
  child.stdout.destroy()
  clearTimeout(timer)
  context.signal.removeEventListener('abort', kill)
  const output = Buffer.concat(chunks).toString('utf8').replace(/\n+$/, '')
  if (exitCode !== 0) {
    const outcome = failed([`Exit code ${exitCode}`, output].filter((part) => part !== '').join('\n'))
    return { ...outcome, aborted: context.signal.aborted }
  }
  return {
    content: output === '' ? '(Bash completed with no output)' : output,
    isError: false,
    toolUseResult: { stdout: output, stderr: '', interrupted: false, isImage: false, noOutputExpected: false },
    value: output,
  }
}

function read(input: Input, context: ToolContext): Outcome {
  const path = required(input, 'file_path')
  const content = contentOf(resolve(context.cwd, path))
  if (content === undefined) return failed(missing(context))
  const lines = content.split('\n')
  const numbered = lines.map((line, index) => `${index + 1}\t${line}`).join('\n')
  const file = { filePath: path, content, numLines: lines.length, startLine: 1, totalLines: lines.length }
  return { content: numbered, isError: false, toolUseResult: { type: 'text', file }, value: content }
}

function write(input: Input, context: ToolContext): Outcome {
  const path = required(input, 'file_path')
  const content = required(input, 'content')
  const place = resolve(context.cwd, path)
  const before = contentOf(place)
  mkdirSync(dirname(place), { recursive: true })
  writeFileSync(place, content)
  const said =
    before === undefined ? `File created successfully at: ${path}` : `The file ${path} has been updated successfully.`
  return {
    content: `${said} (file state is current in your context — no need to Read it back)`,
    isError: false,
    toolUseResult: {
      type: before === undefined ? 'create' : 'update',
      filePath: path,
      content,
      structuredPatch: [],
      originalFile: before ?? null,
      userModified: false,
    },
    value: content,
  }
}

function edit(input: Input, context: ToolContext): Outcome {
  const path = required(input, 'file_path')
  const [from, to] = [required(input, 'old_string'), required(input, 'new_string')]
  const place = resolve(context.cwd, path)
  const before = contentOf(place)
  if (before === undefined) return failed(`<tool_use_error>${missing(context)}</tool_use_error>`)
  if (!before.includes(from)) {
    return failed(`<tool_use_error>String to replace not found in file.\nString: ${from}</tool_use_error>`)
  }
  const all = input['replace_all'] === true
  const after = all ? before.replaceAll(from, () => to) : before.replace(from, () => to)
  writeFileSync(place, after)
  return {
    content: `The file ${path} has been updated successfully. (file state is current in your context — no need to Read it back)`,
    isError: false,
    toolUseResult: { filePath: path, oldString: from, newString: to, originalFile: before, replaceAll: all },
    value: after,
  }
}

function shellEnvironment(sessionId: string): NodeJS.ProcessEnv {
  const { CLAUDE_CODE_OAUTH_TOKEN: _stripped, ...inherited } = process.env
  return {
    ...inherited,
    CLAUDECODE: '1',
    CLAUDE_PID: String(process.pid),
    CLAUDE_CODE_SESSION_ID: sessionId,
    CLAUDE_CODE_ENTRYPOINT: 'sdk-cli',
    CLAUDE_CODE_EXECPATH: process.argv[1] ?? '',
  }
}

function signalGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function missing(context: ToolContext): string {
  return `File does not exist. Note: your current working directory is ${context.cwd}.`
}

function required(input: Input, key: string): string {
  const value = input[key]
  if (typeof value === 'string') return value
  throw new ScenarioError(`a call needs ${key} as text`)
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
