import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { addTokens, noTokens, type Tokens } from './usage.ts'
import { isRecord } from './values.ts'

/**
 * The file a session is continued from: `projects/<cwd with dashes>/<session id>.jsonl` below the configuration folder.
 *
 * As with the real CLI, a message that arrived makes the file, but the message itself is written down only when the
 * model has begun to answer it. A process killed before that leaves a session that is "in use" and whose message,
 * sent again after `--resume`, runs; killed after it, the same message again does nothing.
 */
export interface History {
  readonly sessionId: string
  /** Messages written down so far, by this process and those before it. */
  readonly seen: ReadonlySet<string>
  /** Tokens spent by the processes before this one. */
  readonly spent: Tokens
  append(line: Readonly<Record<string, unknown>>): void
  message(uuid: string, text: string): void
}

export function historyPath(configDir: string, cwd: string, sessionId: string): string {
  return join(configDir, 'projects', dashed(cwd), `${sessionId}.jsonl`)
}

/** `/a/b.c` → `-a-b-c`, the name of a folder that belongs to a working directory. */
export function dashed(path: string): string {
  return path.replace(/[^A-Za-z0-9]/g, '-')
}

/** The file of this session, whatever folder it was started in; undefined when there is none. */
export function findHistory(configDir: string, sessionId: string): string | undefined {
  const projects = join(configDir, 'projects')
  if (!existsSync(projects)) return undefined
  for (const folder of readdirSync(projects)) {
    const path = join(projects, folder, `${sessionId}.jsonl`)
    if (existsSync(path)) return path
  }
  return undefined
}

export interface HistoryOptions {
  readonly sessionId: string
  /** Undefined: nothing is kept. */
  readonly path: string | undefined
  /** The session this one goes on from. */
  readonly previous?: string
}

export function openHistory(options: HistoryOptions): History {
  const { sessionId, path } = options
  const seen = new Set<string>()
  let spent = noTokens
  for (const line of linesOf(options.previous)) {
    if (line['type'] === 'user' && typeof line['uuid'] === 'string') seen.add(line['uuid'])
    if (line['type'] === 'cost-state') spent = addTokens(spent, tokensOf(line))
  }
  if (path !== undefined && options.previous !== undefined && options.previous !== path) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    appendFileSync(path, readFileSync(options.previous), { mode: 0o600 })
  }
  const append = (line: Readonly<Record<string, unknown>>): void => {
    if (path === undefined) return
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const stamped = { ...line, sessionId, timestamp: new Date().toISOString() }
    appendFileSync(path, `${JSON.stringify(stamped)}\n`, { mode: 0o600 })
  }
  return {
    sessionId,
    seen,
    spent,
    append,
    message: (uuid, text) => {
      seen.add(uuid)
      append({ type: 'user', uuid, message: { role: 'user', content: text } })
    },
  }
}

function linesOf(path: string | undefined): readonly Record<string, unknown>[] {
  if (path === undefined) return []
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown)
    .filter(isRecord)
}

function tokensOf(line: Record<string, unknown>): Tokens {
  return { inputTokens: Number(line['inputTokens'] ?? 0), outputTokens: Number(line['outputTokens'] ?? 0) }
}
