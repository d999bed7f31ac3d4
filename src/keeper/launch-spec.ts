import { readSync } from 'node:fs'
import type { KeeperLaunch } from '../ports/keepers.ts'

/** What a keeper is told on its standard input: the launch, and where its own things go. */
export interface KeeperSpec extends KeeperLaunch {
  /** The attempt's folder, which exists and is this attempt's alone. */
  readonly folder: string
  readonly socketPath: string
}

/** Arguments, environment, the node's memo with the brief, and all. */
const specMaxBytes = 4 * 1024 * 1024

export function encodeSpec(spec: KeeperSpec): string {
  return JSON.stringify(spec)
}

/**
 * Reads the launch from a descriptor up to its end. A starter that died half-way leaves half a text, which is refused:
 * nothing was started then, and nothing will be.
 */
export function readSpec(descriptor: number): KeeperSpec {
  const chunks: Buffer[] = []
  for (let total = 0; ; ) {
    const chunk = Buffer.alloc(64 * 1024)
    const count = readSync(descriptor, chunk)
    if (count === 0) return parseSpec(Buffer.concat(chunks).toString('utf8'))
    total += count
    if (total > specMaxBytes) throw new Error(`the launch was over ${specMaxBytes} bytes`)
    chunks.push(chunk.subarray(0, count))
  }
}

function parseSpec(json: string): KeeperSpec {
  const value: unknown = JSON.parse(json)
  if (typeof value !== 'object' || value === null) throw new Error('the launch was no object')
  const facts = new Map<string, unknown>(Object.entries(value))
  const deadlineMs = facts.get('deadlineMs')
  const isMemoGiven = facts.get('memo') !== undefined
  return {
    attemptId: text(facts, 'attemptId'),
    program: text(facts, 'program'),
    args: texts(facts.get('args')),
    cwd: text(facts, 'cwd'),
    env: environment(facts.get('env')),
    secretEnv: environment(facts.get('secretEnv')),
    ...(deadlineMs === undefined ? {} : { deadlineMs: number(deadlineMs) }),
    answerBoundMs: number(facts.get('answerBoundMs')),
    ...(isMemoGiven ? { memo: text(facts, 'memo') } : {}),
    folder: text(facts, 'folder'),
    socketPath: text(facts, 'socketPath'),
  }
}

function text(facts: ReadonlyMap<string, unknown>, key: string): string {
  const value = facts.get(key)
  if (typeof value !== 'string' || value === '') throw new Error(`the launch had no ${key}`)
  return value
}

function number(value: unknown): number {
  if (typeof value !== 'number' || !(value >= 0)) throw new Error('the launch had a bound that is no number')
  return value
}

function texts(value: unknown): readonly string[] {
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string'))
    throw new Error('the launch had bad arguments')
  return value
}

function environment(value: unknown): Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null) throw new Error('the launch had no environment')
  const entries = Object.entries(value)
  if (!entries.every((entry): entry is [string, string] => typeof entry[1] === 'string')) {
    throw new Error('the launch had an environment that is not made of texts')
  }
  return Object.fromEntries(entries)
}
