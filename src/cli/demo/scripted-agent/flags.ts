import { ScenarioError } from './values.ts'

/** The command line of Claude Code 2.1.332, as far as the scripted agent plays it. Anything else is refused by name. */
export interface Flags {
  readonly prompt?: string
  readonly print: boolean
  readonly version: boolean
  readonly verbose: boolean
  readonly inputFormat: 'text' | 'stream-json'
  readonly outputFormat: 'text' | 'json' | 'stream-json'
  readonly replayUserMessages: boolean
  readonly sessionId?: string
  readonly resume?: string
  readonly forkSession: boolean
  readonly persist: boolean
  readonly model?: string
  readonly maxTurns?: number
  readonly maxBudgetUsd?: number
  readonly permissionMode: PermissionMode
  readonly askHost: boolean
  readonly allowedTools: readonly string[]
  readonly disallowedTools: readonly string[]
  /** Undefined: all tools. */
  readonly tools?: readonly string[]
  readonly settingSources: readonly string[]
  readonly settings?: string
  readonly appendSystemPromptFile?: string
  readonly mcpConfigs: readonly string[]
  readonly strictMcpConfig: boolean
  /** Not a flag of Claude Code: given by the launcher of the demo, in front of everything else. */
  readonly scenario?: string
}

export type PermissionMode = 'default' | 'acceptEdits' | 'dontAsk' | 'bypassPermissions'

const switches = [
  '--print',
  '--version',
  '--verbose',
  '--replay-user-messages',
  '--fork-session',
  '--no-session-persistence',
  '--dangerously-skip-permissions',
  '--strict-mcp-config',
  '--disable-slash-commands',
] as const

const singles = [
  '--input-format',
  '--output-format',
  '--session-id',
  '--resume',
  '--model',
  '--effort',
  '--max-turns',
  '--max-budget-usd',
  '--permission-mode',
  '--permission-prompt-tool',
  '--setting-sources',
  '--settings',
  '--append-system-prompt',
  '--append-system-prompt-file',
  '--system-prompt-snapshot',
  '--name',
  '--scenario',
] as const

/** These take every word up to the next flag: a prompt that follows one is swallowed, as the real CLI does it. */
const lists = ['--allowedTools', '--disallowedTools', '--tools', '--mcp-config', '--add-dir'] as const

type Switch = (typeof switches)[number]
type Single = (typeof singles)[number]
type List = (typeof lists)[number]

const aliases: Readonly<Record<string, string>> = {
  '-p': '--print',
  '-v': '--version',
  '-r': '--resume',
  '-n': '--name',
  '--allowed-tools': '--allowedTools',
  '--disallowed-tools': '--disallowedTools',
}

interface Words {
  readonly on: Set<Switch>
  readonly one: Map<Single, string>
  readonly many: Map<List, string[]>
  readonly rest: string[]
}

/** @throws {ScenarioError} on a flag or a value the agent does not know */
export function parseFlags(argv: readonly string[]): Flags {
  const words = split(argv)
  const [prompt, ...surplus] = words.rest
  if (surplus.length > 0) throw new ScenarioError(`unexpected argument ${JSON.stringify(surplus[0])}`)
  const single = (name: Single): string | undefined => words.one.get(name)
  const list = (name: List): string[] => words.many.get(name) ?? []
  const inputFormat = choice(single('--input-format') ?? 'text', ['text', 'stream-json'], '--input-format')
  const outputFormat = choice(single('--output-format') ?? 'text', ['text', 'json', 'stream-json'], '--output-format')
  const askTool = single('--permission-prompt-tool')
  if (askTool !== undefined) choice(askTool, ['stdio'], '--permission-prompt-tool')
  const optional: Record<string, unknown> = {
    prompt,
    sessionId: single('--session-id'),
    resume: single('--resume'),
    model: single('--model'),
    maxTurns: positive(single('--max-turns'), '--max-turns'),
    maxBudgetUsd: positive(single('--max-budget-usd'), '--max-budget-usd'),
    settings: single('--settings'),
    appendSystemPromptFile: single('--append-system-prompt-file'),
    scenario: single('--scenario'),
    tools: words.many.has('--tools') ? names(list('--tools')) : undefined,
  }
  return {
    ...(Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)) as Partial<Flags>),
    print: words.on.has('--print'),
    version: words.on.has('--version'),
    verbose: words.on.has('--verbose'),
    inputFormat,
    outputFormat,
    replayUserMessages: words.on.has('--replay-user-messages'),
    forkSession: words.on.has('--fork-session'),
    persist: !words.on.has('--no-session-persistence'),
    permissionMode: modeOf(words),
    askHost: askTool !== undefined,
    allowedTools: names(list('--allowedTools')),
    disallowedTools: names(list('--disallowedTools')),
    settingSources: names([single('--setting-sources') ?? 'user,project,local']),
    mcpConfigs: list('--mcp-config'),
    strictMcpConfig: words.on.has('--strict-mcp-config'),
  }
}

/** The named mode, as the real CLI names it in `init`: `manual` is the default. */
export function permissionMode(name: string): PermissionMode {
  const known = ['acceptEdits', 'bypassPermissions', 'default', 'dontAsk', 'manual'] as const
  const mode = choice(name, known, 'the permission mode')
  return mode === 'manual' ? 'default' : mode
}

function split(argv: readonly string[]): Words {
  const words: Words = { on: new Set(), one: new Map(), many: new Map(), rest: [] }
  let list = words.rest
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? ''
    if (!word.startsWith('-') || word === '-') {
      list.push(word)
      continue
    }
    const [head = '', inline] = word.startsWith('--') ? word.split(/=(.*)/s) : [word]
    const name = aliases[head] ?? head
    list = words.rest
    if (member(switches, name) && inline === undefined) words.on.add(name)
    else if (member(lists, name)) list = beginList(words, name, inline)
    else if (member(singles, name)) {
      const value = inline ?? argv[++at]
      if (value === undefined) throw new ScenarioError(`${name} needs a value`)
      words.one.set(name, value)
    } else throw new ScenarioError(`unknown flag ${word}`)
  }
  return words
}

function beginList(words: Words, name: List, first: string | undefined): string[] {
  const list = words.many.get(name) ?? []
  words.many.set(name, list)
  if (first !== undefined) list.push(first)
  return list
}

function modeOf(words: Words): PermissionMode {
  if (words.on.has('--dangerously-skip-permissions')) return 'bypassPermissions'
  return permissionMode(words.one.get('--permission-mode') ?? 'default')
}

/** Tool lists may be given as several words or as one with commas; commas inside parentheses belong to a rule. */
function names(words: readonly string[]): string[] {
  const parts = words.flatMap((word) => word.match(/[^,\s(]+(?:\([^)]*\))?/g) ?? [])
  return [...parts]
}

function positive(text: string | undefined, flag: string): number | undefined {
  if (text === undefined) return undefined
  const value = Number(text)
  if (!(value > 0)) throw new ScenarioError(`${flag} takes a number above 0, not ${JSON.stringify(text)}`)
  return value
}

function choice<const T extends string>(value: string, known: readonly T[], what: string): T {
  if (member(known, value)) return value
  throw new ScenarioError(`${what}: ${JSON.stringify(value)} is not known; known: ${known.join(', ')}`)
}

function member<const T extends string>(known: readonly T[], value: string): value is T {
  return (known as readonly string[]).includes(value)
}
