import { create, type DescField, type DescFile, type DescMessage, ScalarType, toBinary } from '@bufbuild/protobuf'
import { describe, expect, test } from 'vitest'
import type { ErrorCode } from '../../src/core/errors.ts'
import { NfltrError } from '../../src/core/errors.ts'
import { limits } from '../../src/core/limits.ts'
import { decodeAccount, encodeAccount } from '../../src/wire/account-codec.ts'
import { bounds, instantMaxMs } from '../../src/wire/bounds.ts'
import { file_account } from '../../src/wire/generated/rev1/account_pb.ts'
import { file_handshake } from '../../src/wire/generated/rev1/handshake_pb.ts'
import { file_records } from '../../src/wire/generated/rev1/records_pb.ts'
import { ControlSchema, file_session, SessionFrameSchema } from '../../src/wire/generated/rev1/session_pb.ts'
import { file_work, WorkMessageSchema } from '../../src/wire/generated/rev1/work_pb.ts'
import { decodeHandshake } from '../../src/wire/handshake-codec.ts'
import { decodeMembership } from '../../src/wire/record-codec.ts'
import { decodeRoster } from '../../src/wire/roster-codec.ts'
import { decodeFrame, encodeFrame, partMaxBytes } from '../../src/wire/session-codec.ts'
import { decodeWork, encodeWork } from '../../src/wire/work-codec.ts'

const ref = { agentId: 'agt_1', taskId: 'tsk_1', attemptId: 'att_1', epoch: 1 }
const files: readonly DescFile[] = [file_session, file_work, file_records, file_handshake, file_account]
const messages: readonly DescMessage[] = files.flatMap((file) => file.messages)

function refusalOf(action: () => unknown): ErrorCode | undefined {
  try {
    action()
    return undefined
  } catch (error) {
    if (error instanceof NfltrError) return error.code
    throw error
  }
}

function needsBytes(field: DescField): boolean {
  return field.message === undefined && (field.scalar === ScalarType.STRING || field.scalar === ScalarType.BYTES)
}

/** A length-delimited field as it is encoded. */
function field(number: number, value: Uint8Array): Uint8Array {
  return new Uint8Array([...varint(number * 8 + 2), ...varint(value.length), ...value])
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]
}

describe('bounds', () => {
  test('every string, byte string and list of the protocol has one, and none is for a field that is gone', () => {
    const needed = messages.flatMap((message) =>
      message.fields
        .filter((candidate) => candidate.fieldKind === 'list' || needsBytes(candidate))
        .map((candidate) => `${message.name}.${candidate.name}`),
    )
    const given = Object.entries(bounds).flatMap(([message, rows]) =>
      Object.keys(rows).map((name) => `${message}.${name}`),
    )

    expect([...given].sort()).toEqual([...needed].sort())
  })

  test('a list is bounded in count, and what it holds in bytes', () => {
    const wrong = messages.flatMap((message) =>
      message.fields.filter((candidate) => {
        const bound = bounds[message.name]?.[candidate.name]
        const lacksCount = candidate.fieldKind === 'list' && bound?.maxCount === undefined
        return lacksCount || (needsBytes(candidate) && bound?.maxBytes === undefined)
      }),
    )

    expect(wrong.map(String)).toEqual([])
  })

  test('no message has a map, a group, an enum or itself inside', () => {
    const inside = (message: DescMessage, above: readonly string[]): void => {
      expect(above).not.toContain(message.name)
      for (const child of message.fields) {
        expect(['scalar', 'message', 'list']).toContain(child.fieldKind)
        if (child.message !== undefined) inside(child.message, [...above, message.name])
      }
    }

    for (const message of messages) inside(message, [])
  })
})

describe('decoding', () => {
  test('takes a brief of 1 MiB and refuses one byte more, on either side', () => {
    const claim = (brief: string) =>
      ({ type: 'claim', commandId: 'c', ref, turn: 1, request: { brief }, lostAfterMs: 1 }) as const
    const largest = 'a'.repeat(limits.briefMaxBytes)

    expect(decodeWork(encodeWork(claim(largest)))).toEqual(claim(largest))
    expect(refusalOf(() => encodeWork(claim(`${largest}a`)))).toBe('invalid_frame')
    const tooLong = toBinary(
      WorkMessageSchema,
      create(WorkMessageSchema, {
        kind: 'claim',
        commandId: 'c',
        ref: { ...ref, epoch: 1n },
        body: { case: 'claim', value: { request: { brief: `${largest}a` } } },
      }),
    )
    expect(refusalOf(() => decodeWork(tooLong))).toBe('invalid_frame')
  })

  test('takes a result of 16 MiB', () => {
    const text = '결'.repeat(Math.floor(limits.resultTextMaxBytes / 3))
    const ended = {
      type: 'ended',
      ref,
      result: {
        outcome: 'completed',
        text,
        denied: [],
        usage: { inputTokens: 1, outputTokens: 1, costUsd: 0, durationMs: 1 },
        messages: [],
        details: {},
      },
    } as const

    expect(decodeWork(encodeWork(ended))).toEqual(ended)
  })

  test('refuses a frame that is too long before it looks at it', () => {
    expect(refusalOf(() => decodeFrame(new Uint8Array(limits.sessionFrameMaxBytes + 1)))).toBe('frame_too_large')
    expect(refusalOf(() => decodeHandshake(new Uint8Array(limits.helloMaxBytes + 1)))).toBe('frame_too_large')
    expect(refusalOf(() => decodeWork(new Uint8Array(limits.workMessageMaxBytes + 1)))).toBe('frame_too_large')
  })

  test('the largest page of what a node has on record fits into a message', () => {
    const longest = 'é'.repeat(64)
    const attempt = {
      agentId: longest,
      taskId: longest,
      attemptId: longest,
      epoch: Number.MAX_SAFE_INTEGER,
      isOpen: true,
      textHash: 'a'.repeat(64),
      receiptId: longest,
    }
    const page = (count: number) => ({ type: 'page', attempts: new Array(count).fill(attempt), isLast: false }) as const

    expect(decodeAccount(encodeAccount(page(limits.accountPageMax)))).toEqual(page(limits.accountPageMax))
    expect(refusalOf(() => encodeAccount(page(limits.accountPageMax + 1)))).toBe('invalid_frame')
  })

  test('the largest part fits into a frame', () => {
    const largest = Number.MAX_SAFE_INTEGER
    const part = {
      type: 'part',
      lane: 0xffff_ffff,
      no: largest,
      index: 0xffff_ffff,
      isLast: true,
      digest: new Uint8Array(8),
    } as const

    const bytes = encodeFrame({ ...part, bytes: new Uint8Array(partMaxBytes) })

    expect(bytes.length).toBeLessThanOrEqual(limits.sessionFrameMaxBytes)
  })

  test('refuses two million empty elements without building them', () => {
    // RosterMessage.push (2) with RosterPush.members (1), each of two bytes on the wire and a hundred in memory.
    const members = new Uint8Array(2_000_000).map((_, index) => (index % 2 === 0 ? 0x0a : 0))
    const bytes = new Uint8Array([0x12, ...varint(members.length)].length + members.length)
    const head = [0x12, ...varint(members.length)]
    bytes.set(head)
    bytes.set(members, head.length)
    const before = process.memoryUsage().heapUsed

    expect(refusalOf(() => decodeRoster(bytes))).toBe('invalid_frame')

    expect(process.memoryUsage().heapUsed - before).toBeLessThan(30_000_000)
  })

  test('refuses a message inside a message that is longer than the outer one', () => {
    expect(refusalOf(() => decodeFrame(new Uint8Array([0x22, 0x7f, 0x0a])))).toBe('invalid_frame')
  })

  test('refuses groups, however deep', () => {
    expect(refusalOf(() => decodeFrame(new Uint8Array(60_000).fill(0xa3)))).toBe('invalid_frame')
  })

  test('refuses a field that occurs twice where one is meant', () => {
    const hubId = field(1, Buffer.from('hub'))

    expect(refusalOf(() => decodeFrame(field(1, new Uint8Array([...hubId, ...hubId]))))).toBe('invalid_frame')
  })

  test('refuses text that is not UTF-8', () => {
    expect(refusalOf(() => decodeFrame(field(1, field(1, new Uint8Array([0xc3, 0x28])))))).toBe('invalid_frame')
    expect(refusalOf(() => decodeFrame(field(1, field(1, new Uint8Array([0xed, 0xa0, 0x80])))))).toBe('invalid_frame')
  })

  test('writes a lone surrogate as the replacement character, and the rest of the text as it is', () => {
    const steer = { type: 'steer', commandId: 'c', ref, messageId: 'm', text: '\ufeffa\0\ud800b' } as const

    expect(decodeWork(encodeWork(steer))).toEqual({ ...steer, text: '\ufeffa\0\ufffdb' })
  })

  test('refuses numbers that would not stay exact', () => {
    // SessionOpen.epoch (2) = 2^53.
    const epoch = new Uint8Array([0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10])

    expect(refusalOf(() => decodeFrame(field(1, new Uint8Array([...field(1, Buffer.from('hub')), ...epoch]))))).toBe(
      'invalid_frame',
    )
    expect(refusalOf(() => encodeFrame({ type: 'control', message: { type: 'probe', nonce: 2 ** 53 } }))).toBe(
      'invalid_frame',
    )
    expect(refusalOf(() => encodeFrame({ type: 'control', message: { type: 'probe', nonce: -1 } }))).toBe(
      'invalid_frame',
    )
    expect(refusalOf(() => encodeFrame({ type: 'control', message: { type: 'probe', nonce: Number.NaN } }))).toBe(
      'invalid_frame',
    )
  })

  test('refuses a moment that nobody could be shown, and no span of that length', () => {
    const events = (atMs: number) =>
      ({ type: 'task_events', ref, events: [{ seq: 1, atMs, turn: 1, type: 'text', fields: {} }] }) as const
    const claim = (lostAfterMs: number) =>
      ({ type: 'claim', commandId: 'c', ref, turn: 1, request: { brief: 'b' }, lostAfterMs }) as const

    expect(new Date(instantMaxMs).toISOString()).toBe('9999-12-31T23:59:59.999Z')
    expect(decodeWork(encodeWork(events(instantMaxMs)))).toEqual(events(instantMaxMs))
    expect(refusalOf(() => encodeWork(events(instantMaxMs + 1)))).toBe('invalid_frame')
    expect(decodeWork(encodeWork(claim(Number.MAX_SAFE_INTEGER)))).toEqual(claim(Number.MAX_SAFE_INTEGER))
  })

  test('names the kind of work that it does not know, with its command', () => {
    const bytes = toBinary(WorkMessageSchema, create(WorkMessageSchema, { kind: 'monitor_start', commandId: 'cmd_1' }))

    expect(decodeWork(bytes)).toEqual({ type: 'unknown', kind: 'monitor_start', commandId: 'cmd_1' })
  })

  test('passes over frames and control messages of kinds that it does not know', () => {
    const control = new Uint8Array([...toBinary(ControlSchema, create(ControlSchema)), 0xa2, 0x06, 0])
    const frame = toBinary(SessionFrameSchema, create(SessionFrameSchema, { kind: { case: 'control', value: {} } }))

    expect(decodeFrame(frame)).toEqual({ type: 'unknown' })
    expect(decodeFrame(field(4, control))).toEqual({ type: 'unknown' })
    expect(decodeFrame(field(100, control))).toEqual({ type: 'unknown' })
  })

  test('refuses a message whose body is that of another kind', () => {
    const bytes = toBinary(
      WorkMessageSchema,
      create(WorkMessageSchema, {
        kind: 'steer',
        commandId: 'c',
        ref: { ...ref, epoch: 1n },
        body: { case: 'stop', value: {} },
      }),
    )

    expect(refusalOf(() => decodeWork(bytes))).toBe('invalid_frame')
  })

  test('leaves out roles that it does not know, and refuses a name that is none', () => {
    const membership = (name: string, role: string): Uint8Array =>
      new Uint8Array([
        ...field(1, Buffer.from('mesh')),
        ...field(2, Buffer.from('mesh')),
        ...field(3, Buffer.from('peer')),
        ...field(4, Buffer.from(name)),
        ...field(5, Buffer.from(role)),
        ...field(5, Buffer.from('node')),
      ])

    expect(decodeMembership(membership('vm-1', 'emperor')).roles).toEqual(['node'])
    expect(refusalOf(() => decodeMembership(membership('VM 1', 'node')))).toBe('invalid_frame')
    expect(refusalOf(() => decodeMembership(membership('vm\u001b[2J', 'node')))).toBe('invalid_frame')
  })
})
