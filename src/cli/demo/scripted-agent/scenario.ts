import { readFileSync } from 'node:fs'
import { isRecord, ScenarioError } from './values.ts'

/**
 * What the agent does, as data: `{"turns": {"<exact text>": [step…]}, "default"?: [step…]}`. A turn is found by the
 * exact text of the message that began it; nothing in a message is interpreted. Every step has one key that says what it
 * is, and no key that is not listed here.
 */
export interface Scenario {
  readonly turns: ReadonlyMap<string, readonly Step[]>
  readonly default: readonly Step[] | undefined
}

export interface Call {
  readonly tool: string
  /** May hold values (`$ref`, …). */
  readonly input: unknown
  /** Names the result for later `$ref`s. */
  readonly as?: string
  /** Refuses this call with this text, whatever the permission mode. */
  readonly deny?: string
}

export type Step =
  /** Text of the model; with `chunks` it takes `chunks × chunk_ms` and an interrupt in between cuts it. */
  | { readonly kind: 'say'; readonly text: unknown; readonly chunks: number; readonly chunkMs: number }
  | { readonly kind: 'think'; readonly text: unknown }
  /** One answer of the model with these calls; the next step belongs to the next answer. */
  | { readonly kind: 'tools'; readonly calls: readonly Call[] }
  /** The model is silent until the file exists; relative to the working directory. */
  | { readonly kind: 'wait_for_file'; readonly path: string }
  /** Silent until a further message has come, which is then taken in, as after a tool. */
  | { readonly kind: 'wait_for_message' }
  | { readonly kind: 'hang' }
  | { readonly kind: 'crash'; readonly exitCode?: number; readonly signal?: NodeJS.Signals }
  /** The API answers so often with this status; what it retries, and how it gives up, is Claude Code's own rule. */
  | { readonly kind: 'http_error'; readonly status: number; readonly message: string; readonly times: number }
  /** Token counts of the current answer; default 10 in, 5 out. */
  | { readonly kind: 'usage'; readonly inputTokens: number; readonly outputTokens: number }
  | { readonly kind: 'end'; readonly stopReason: string }
  /** Any line on standard output, for what no other step says. */
  | { readonly kind: 'emit'; readonly line: Readonly<Record<string, unknown>> }
  /** A control request to the host; the turn waits for the answer. */
  | { readonly kind: 'request'; readonly request: Readonly<Record<string, unknown>>; readonly as?: string }

type Fields = Readonly<Record<string, unknown>>

const stepKeys: Readonly<Record<string, readonly string[]>> = {
  say: ['chunks', 'chunk_ms'],
  think: [],
  tool: ['input', 'as', 'deny'],
  tools: [],
  wait_for_file: [],
  wait_for_message: [],
  hang: [],
  crash: [],
  http_error: [],
  usage: [],
  end: [],
  emit: [],
  request: ['as'],
}

/** @throws {ScenarioError} when the file cannot be read, or holds anything that is not listed above */
export function readScenario(path: string): Scenario {
  let document: unknown
  try {
    document = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new ScenarioError(`cannot read the scenario ${path}: ${String(error)}`)
  }
  return parseScenario(document)
}

export function parseScenario(document: unknown): Scenario {
  const fields = record(document, 'the scenario')
  onlyKeys(fields, ['turns', 'default'], 'the scenario')
  const turns = fields['turns'] === undefined ? {} : record(fields['turns'], 'turns')
  return {
    turns: new Map(Object.entries(turns).map(([text, steps]) => [text, parseSteps(steps, JSON.stringify(text))])),
    default: fields['default'] === undefined ? undefined : parseSteps(fields['default'], 'default'),
  }
}

export function stepsFor(scenario: Scenario, text: string): readonly Step[] {
  const steps = scenario.turns.get(text) ?? scenario.default
  if (steps === undefined) {
    throw new ScenarioError(`the scenario has no turn for the message ${JSON.stringify(text.slice(0, 200))}`)
  }
  return steps
}

function parseSteps(value: unknown, where: string): readonly Step[] {
  if (!Array.isArray(value) || value.length === 0) throw new ScenarioError(`${where}: a turn is a list of steps`)
  return value.map((step, index) => parseStep(step, `${where}, step ${index + 1}`))
}

function parseStep(value: unknown, where: string): Step {
  const fields = record(value, where)
  const kinds = Object.keys(fields).filter((key) => Object.hasOwn(stepKeys, key))
  const [kind] = kinds
  if (kind === undefined || kinds.length !== 1) {
    throw new ScenarioError(`${where}: unknown step ${JSON.stringify(value).slice(0, 200)}`)
  }
  onlyKeys(fields, [kind, ...(stepKeys[kind] ?? [])], where)
  const content = fields[kind]
  switch (kind) {
    case 'say':
      return {
        kind,
        text: content,
        chunks: count(fields['chunks'] ?? 1, where),
        chunkMs: count(fields['chunk_ms'] ?? 0, where),
      }
    case 'think':
      return { kind, text: content }
    case 'tool':
      return { kind: 'tools', calls: [parseCall(fields, where)] }
    case 'tools':
      if (!Array.isArray(content)) throw new ScenarioError(`${where}: tools takes a list of calls`)
      return { kind, calls: content.map((call) => parseCall(record(call, where), where)) }
    case 'wait_for_file':
      return { kind, path: text(content, where) }
    case 'wait_for_message':
    case 'hang':
      if (content !== true) throw new ScenarioError(`${where}: ${kind} takes true`)
      return { kind }
    case 'crash':
      return parseCrash(record(content, where), where)
    case 'http_error':
      return parseHttpError(record(content, where), where)
    case 'usage':
      return parseUsage(record(content, where), where)
    case 'end':
      return { kind, stopReason: text(content, where) }
    case 'emit':
      return { kind, line: record(content, where) }
    case 'request':
      return { kind, request: record(content, where), ...optionalText(fields, 'as', where) }
    default:
      throw new ScenarioError(`${where}: unknown step ${kind}`)
  }
}

function parseCall(fields: Fields, where: string): Call {
  onlyKeys(fields, ['tool', 'input', 'as', 'deny'], where)
  return {
    tool: text(fields['tool'], where),
    input: fields['input'] ?? {},
    ...optionalText(fields, 'as', where),
    ...optionalText(fields, 'deny', where),
  }
}

function parseCrash(fields: Fields, where: string): Step {
  onlyKeys(fields, ['exit', 'signal'], where)
  if (fields['signal'] === 'SIGKILL') return { kind: 'crash', signal: 'SIGKILL' }
  if (fields['signal'] !== undefined) throw new ScenarioError(`${where}: the only signal to crash with is SIGKILL`)
  return { kind: 'crash', exitCode: count(fields['exit'], where) }
}

function parseHttpError(fields: Fields, where: string): Step {
  onlyKeys(fields, ['status', 'message', 'times'], where)
  const message = fields['message'] === undefined ? 'scripted error' : text(fields['message'], where)
  return {
    kind: 'http_error',
    status: count(fields['status'], where),
    message,
    times: count(fields['times'] ?? 1, where),
  }
}

function parseUsage(fields: Fields, where: string): Step {
  onlyKeys(fields, ['input_tokens', 'output_tokens'], where)
  const inputTokens = count(fields['input_tokens'] ?? 10, where)
  return { kind: 'usage', inputTokens, outputTokens: count(fields['output_tokens'] ?? 5, where) }
}

function optionalText<const K extends string>(fields: Fields, key: K, where: string): { [name in K]?: string } {
  const value = fields[key]
  return (value === undefined ? {} : { [key]: text(value, where) }) as { [name in K]?: string }
}

function onlyKeys(fields: Fields, known: readonly string[], where: string): void {
  const stranger = Object.keys(fields).find((key) => !known.includes(key))
  if (stranger !== undefined) throw new ScenarioError(`${where}: unknown key ${stranger}; known: ${known.join(', ')}`)
}

function record(value: unknown, where: string): Fields {
  if (isRecord(value)) return value
  throw new ScenarioError(`${where}: expected an object`)
}

function text(value: unknown, where: string): string {
  if (typeof value === 'string') return value
  throw new ScenarioError(`${where}: expected text`)
}

function count(value: unknown, where: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value
  throw new ScenarioError(`${where}: expected a whole number of at least 0`)
}
