import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JournalBody } from '../../../../src/core/journal.ts'
import type { AttemptResult } from '../../../../src/core/model.ts'
import { beginTurn, type ClaudeTurn } from '../../../../src/node/drivers/claude/state.ts'
import { step } from '../../../../src/node/drivers/claude/turn.ts'
import type { TurnEffect, TurnInput, TurnLaunch } from '../../../../src/ports/agent-driver.ts'

/**
 * What the real program said and was told, recorded, as inputs of the driver: its output as journal records, the messages
 * it was given as their intents, an interrupt as the stop that it was. See test/fixtures/transcripts.
 */
export interface Recording {
  readonly launch: TurnLaunch
  readonly inputs: readonly TurnInput[]
}

interface Entry {
  readonly dir: 'meta' | 'in' | 'out' | 'err' | 'exit'
  readonly line: unknown
}

const folder = join(import.meta.dirname, '../../../fixtures/transcripts')
const encoder = new TextEncoder()

export const launchOf = (more: Partial<TurnLaunch> = {}): TurnLaunch => ({
  attemptId: 'att_1',
  agentId: 'agent_1',
  taskId: 'task_1',
  turn: 1,
  machineName: 'vm1',
  sessionId: '00000000-0000-4000-8000-000000000001',
  isContinuation: false,
  workspace: '/agent',
  privateDir: '/private',
  tmpDir: '/tmp',
  request: { brief: 'first' },
  firstMessageId: 'msg_00000000000040008000000000000001',
  allowAllTools: true,
  ...more,
})

let position = 0
export function record(body: JournalBody): TurnInput {
  position += 1
  return { type: 'record', record: { ...body, nextOffset: position, atMs: position } }
}

export const stdout = (line: unknown): TurnInput =>
  record({ type: 'stdout', line: encoder.encode(typeof line === 'string' ? line : JSON.stringify(line)) })

export function load(name: string): Recording {
  const entries = readFileSync(join(folder, `${name}.jsonl`), 'utf8')
    .trim()
    .split('\n')
    .map((line): Entry => JSON.parse(line))
  const uuids = entries.flatMap(({ dir, line }) => (dir === 'in' && isUser(line) ? [line.uuid] : []))
  const firstMessageId = messageIdOf(uuids[0]) ?? launchOf().firstMessageId
  const launch = launchOf({ firstMessageId })
  let messagesCount = 0
  const inputs = entries.flatMap(({ dir, line }): readonly TurnInput[] => {
    if (dir === 'out') return [stdout(line)]
    if (dir === 'err') return [record({ type: 'stderr', chunk: encoder.encode(String(line)) })]
    if (dir === 'exit') return [exitOf(line)]
    if (dir !== 'in') return []
    if (isUser(line)) {
      messagesCount += 1
      const messageId = messageIdOf(line.uuid) ?? firstMessageId
      const intent = record({ type: 'stdin_intent', messageId, bytes: new Uint8Array() })
      return messagesCount === 1 ? [intent] : [{ type: 'steer', messageId, text: String(line.message.content) }, intent]
    }
    return isInterrupt(line) ? [{ type: 'stop', commandId: 'stop_1' }] : []
  })
  return { launch, inputs: [record({ type: 'launched', pid: 1, start: '1' }), ...inputs] }
}

export interface Folded {
  readonly state: ClaudeTurn
  readonly effects: readonly TurnEffect[]
  readonly result: AttemptResult | undefined
}

export function fold(launch: TurnLaunch, inputs: readonly TurnInput[]): Folded {
  let state = beginTurn(launch)
  const effects: TurnEffect[] = []
  for (const input of inputs) {
    const next = step(state, input)
    state = next.state
    effects.push(...next.effects)
  }
  const ended = effects.find((effect) => effect.type === 'ended')
  return { state, effects, result: ended?.type === 'ended' ? ended.result : undefined }
}

export function play(name: string): Folded & { readonly result: AttemptResult } {
  const { launch, inputs } = load(name)
  const folded = fold(launch, inputs)
  if (folded.result === undefined) throw new Error(`the recording ${name} did not end the turn`)
  return { ...folded, result: folded.result }
}

/** Effects without log lines, named: the skeleton of what a driver did. */
export function acts(effects: readonly TurnEffect[]): readonly string[] {
  return effects.flatMap((effect): readonly string[] => {
    switch (effect.type) {
      case 'event':
        return []
      case 'write':
        return [`write ${effect.messageId.startsWith('interrupt_') ? 'interrupt' : 'message'}`]
      case 'wake_after':
        return [`wake ${effect.token.split('_')[0]}`]
      case 'message_state':
        return [`message ${effect.state}`]
      default:
        return [effect.type]
    }
  })
}

function exitOf(line: unknown): TurnInput {
  const { code, sig } = line as { readonly code: number | null; readonly sig: string | null }
  return record({
    type: 'exit',
    ...(code === null ? {} : { code }),
    ...(sig === null ? {} : { signal: sig }),
    proof: 'scan_clean',
  })
}

function isUser(line: unknown): line is { readonly uuid?: string; readonly message: { readonly content: unknown } } {
  return typeof line === 'object' && line !== null && 'type' in line && line.type === 'user'
}

function isInterrupt(line: unknown): boolean {
  return JSON.stringify(line).includes('"subtype":"interrupt"')
}

function messageIdOf(uuid: string | undefined): string | undefined {
  return uuid === undefined ? undefined : `msg_${uuid.replaceAll('-', '')}`
}
