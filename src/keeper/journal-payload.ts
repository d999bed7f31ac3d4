import type { ExitProof, JournalBody } from '../core/journal.ts'

/** The part of a record that depends on its type. */
export function encodePayload(body: JournalBody): Buffer {
  switch (body.type) {
    case 'stdout':
      return Buffer.from(body.line)
    case 'stderr':
      return Buffer.from(body.chunk)
    case 'stdin_intent':
      return withFacts({ id: body.messageId }, body.bytes)
    case 'control_answer':
      return withFacts({ id: body.requestId, by: body.by }, body.bytes)
    case 'stdout_cut':
      return withFacts({ bytes: body.lineBytes }, body.head)
    default: {
      const { type: _, ...facts } = body
      return Buffer.from(JSON.stringify(facts))
    }
  }
}

/** Small facts as JSON behind their length, then raw bytes. */
function withFacts(facts: Readonly<Record<string, unknown>>, bytes: Uint8Array): Buffer {
  const json = Buffer.from(JSON.stringify(facts))
  const length = Buffer.alloc(2)
  length.writeUInt16BE(json.length)
  return Buffer.concat([length, json, bytes])
}

/** `undefined` where a sound checksum covers something we never write: also damage, of a program and not of a disk. */
export function decodePayload(type: JournalBody['type'], payload: Buffer): JournalBody | undefined {
  try {
    return decodeBody(type, payload)
  } catch {
    return undefined
  }
}

function decodeBody(type: JournalBody['type'], payload: Buffer): JournalBody {
  switch (type) {
    case 'stdout':
      return { type, line: payload }
    case 'stderr':
      return { type, chunk: payload }
    case 'stdin_intent': {
      const { facts, bytes } = splitFacts(payload)
      return { type, messageId: text(facts, 'id'), bytes }
    }
    case 'control_answer': {
      const { facts, bytes } = splitFacts(payload)
      return { type, requestId: text(facts, 'id'), by: oneOf(facts, 'by', ['node', 'keeper']), bytes }
    }
    case 'stdout_cut': {
      const { facts, bytes } = splitFacts(payload)
      return { type, lineBytes: number(facts, 'bytes'), head: bytes }
    }
    default:
      return decodeFacts(type, parseFacts(payload))
  }
}

type FactsType = Exclude<JournalBody['type'], 'stdout' | 'stderr' | 'stdin_intent' | 'control_answer' | 'stdout_cut'>
type Facts = Readonly<Record<string, unknown>>

function decodeFacts(type: FactsType, facts: Facts): JournalBody {
  switch (type) {
    case 'header':
      return decodeHeader(facts)
    case 'launching':
      return { type, ...optional('cgroup', facts, text) }
    case 'launched':
      return { type, pid: number(facts, 'pid'), start: text(facts, 'start') }
    case 'launch_failed':
      return { type, message: text(facts, 'message') }
    case 'input_closed':
      return { type }
    case 'stopping':
      return { type, by: oneOf(facts, 'by', ['node', 'deadline']) }
    case 'exit': {
      const proofs: readonly ExitProof[] = ['cgroup_empty', 'pidns_gone', 'scan_clean']
      return {
        type,
        ...optional('code', facts, number),
        ...optional('signal', facts, text),
        proof: oneOf(facts, 'proof', proofs),
      }
    }
  }
}

function decodeHeader(facts: Facts): JournalBody {
  return {
    type: 'header',
    token: text(facts, 'token'),
    attemptId: text(facts, 'attemptId'),
    bootId: text(facts, 'bootId'),
    protocol: number(facts, 'protocol'),
    command: texts(facts, 'command'),
    envNames: texts(facts, 'envNames'),
    ...optional('deadlineMs', facts, number),
    wallMs: number(facts, 'wallMs'),
    keeperPid: number(facts, 'keeperPid'),
    keeperStart: text(facts, 'keeperStart'),
    socketPath: text(facts, 'socketPath'),
    ...optional('memo', facts, text),
  }
}

function splitFacts(payload: Buffer): { readonly facts: Facts; readonly bytes: Buffer } {
  const end = 2 + payload.readUInt16BE(0)
  if (end > payload.length) throw new Error('facts run over the end of the record')
  return { facts: parseFacts(payload.subarray(2, end)), bytes: payload.subarray(end) }
}

function parseFacts(json: Buffer): Facts {
  const value: unknown = JSON.parse(json.toString('utf8'))
  if (typeof value !== 'object' || value === null) throw new Error('the facts of a record are not an object')
  return Object.fromEntries(Object.entries(value))
}

function text(facts: Facts, key: string): string {
  const value = facts[key]
  if (typeof value !== 'string') throw new Error(`${key} is not a text`)
  return value
}

function number(facts: Facts, key: string): number {
  const value = facts[key]
  if (typeof value !== 'number') throw new Error(`${key} is not a number`)
  return value
}

function texts(facts: Facts, key: string): readonly string[] {
  const value = facts[key]
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string'))
    throw new Error(`${key} is not a list of texts`)
  return value
}

function oneOf<T extends string>(facts: Facts, key: string, values: readonly T[]): T {
  const value = values.find((candidate) => candidate === facts[key])
  if (value === undefined) throw new Error(`${key} has an unknown value`)
  return value
}

function optional<K extends string, T>(key: K, facts: Facts, read: (facts: Facts, key: K) => T): { [P in K]?: T } {
  if (facts[key] === undefined) return {}
  return { [key]: read(facts, key) } as { [P in K]?: T }
}
