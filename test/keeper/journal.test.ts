import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import type { JournalBody, JournalRecord } from '../../src/core/journal.ts'
import { decodeRecord, encodeRecord, journalMagic, payloadMaxBytes, recordHeadBytes } from '../../src/keeper/journal.ts'
import { openJournal } from '../../src/keeper/journal-reader.ts'

const header: JournalBody = {
  type: 'header',
  token: '00112233445566778899aabbccddeeff',
  attemptId: 'a1',
  bootId: 'boot',
  protocol: 1,
  command: ['/bin/agent', '--flag', 'wörd'],
  envNames: ['PATH'],
  deadlineMs: 5,
  wallMs: 1_700_000_000_000,
  keeperPid: 7,
  keeperStart: '99',
  socketPath: '/run/k.sock',
}

const examples: readonly JournalBody[] = [
  header,
  { type: 'launching', cgroup: '/sys/fs/cgroup/x' },
  { type: 'launching' },
  { type: 'launched', pid: 12, start: '345' },
  { type: 'launch_failed', message: 'ENOENT' },
  { type: 'stdout', line: Buffer.from('{"type":"result"}') },
  { type: 'stdout', line: Buffer.alloc(0) },
  { type: 'stdout_cut', head: Buffer.from('abc'), lineBytes: 40_000_000 },
  { type: 'stderr', chunk: Buffer.from([0, 255, 10]) },
  { type: 'stdin_intent', messageId: 'm-1', bytes: Buffer.from('hello\n') },
  { type: 'control_answer', requestId: 'r-1', by: 'keeper', bytes: Buffer.from('no\n') },
  { type: 'input_closed' },
  { type: 'stopping', by: 'deadline' },
  { type: 'exit', code: 0, proof: 'scan_clean' },
  { type: 'exit', signal: 'SIGKILL', proof: 'cgroup_empty' },
]

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nfltr-journal-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function readAll(bytes: Uint8Array): Promise<{ records: JournalRecord[]; damagedAt: unknown }> {
  const path = join(folder, 'journal')
  await writeFile(path, bytes)
  const reader = await openJournal(path, 0)
  const records: JournalRecord[] = []
  try {
    for await (const record of reader.readRest()) records.push(record)
    return { records, damagedAt: undefined }
  } catch (error) {
    if (!(error instanceof NfltrError) || error.code !== 'journal_damaged') throw error
    return { records, damagedAt: error.details['offset'] }
  } finally {
    await reader.close()
  }
}

/** A journal as bytes, and where each of its records ends. */
function journalOf(bodies: readonly JournalBody[]): { bytes: Buffer; ends: readonly number[] } {
  const ends: number[] = []
  let end = journalMagic.length
  const records = bodies.map((body, index) => {
    const record = encodeRecord(body, index)
    end += record.length
    ends.push(end)
    return record
  })
  return { bytes: Buffer.concat([journalMagic, ...records]), ends }
}

const bodyOf = ({ nextOffset: _, atMs: __, ...body }: JournalRecord): unknown => body
const asBuffers = (body: unknown): unknown =>
  JSON.parse(
    JSON.stringify(body, (_key, value: unknown) =>
      value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
    ),
  )

describe('journal', () => {
  test('every kind of record comes back as it was written, with its place and its time', async () => {
    const { bytes, ends } = journalOf(examples)

    const { records, damagedAt } = await readAll(bytes)

    expect(damagedAt).toBeUndefined()
    expect(records.map(bodyOf).map(asBuffers)).toEqual(examples.map(asBuffers))
    expect(records.map((record) => record.nextOffset)).toEqual(ends)
    expect(records.map((record) => record.atMs)).toEqual(examples.map((_, index) => index))
  })

  test('any bytes of output come back unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 500 }), { maxLength: 20 }), async (chunks) => {
        const bodies: JournalBody[] = chunks.map((line) => ({ type: 'stdout', line: Buffer.from(line) }))

        const { records } = await readAll(journalOf([header, ...bodies]).bytes)

        expect(records.slice(1).map(bodyOf).map(asBuffers)).toEqual(bodies.map(asBuffers))
      }),
      { numRuns: 50 },
    )
  })

  test('a journal cut at any byte reads as its whole records, and never as damaged', async () => {
    const { bytes, ends } = journalOf(examples)

    for (let cut = 0; cut <= bytes.length; cut += 1) {
      const { records, damagedAt } = await readAll(bytes.subarray(0, cut))
      expect({ cut, damagedAt }).toEqual({ cut, damagedAt: undefined })
      expect(records.length).toBe(ends.filter((end) => end <= cut).length)
    }
  })

  test('a cut tail of zeros or noise, as a power cut leaves it, is a tail', async () => {
    const { bytes, ends } = journalOf(examples)
    const sound = ends[4] ?? 0

    const zeros = await readAll(Buffer.concat([bytes.subarray(0, sound + 9), Buffer.alloc(5000)]))
    const noise = await readAll(Buffer.concat([bytes.subarray(0, sound), Buffer.alloc(5000, 0xa7)]))

    expect([zeros.records.length, zeros.damagedAt]).toEqual([5, undefined])
    expect([noise.records.length, noise.damagedAt]).toEqual([5, undefined])
  })

  test('a changed byte anywhere before the last record is named with the offset of the record it is in', async () => {
    const { bytes, ends } = journalOf(examples)
    const lastStart = ends.at(-2) ?? 0

    for (let at = 0; at < lastStart; at += 1) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8))
      const before = ends.filter((end) => end <= at)
      const { records, damagedAt } = await readAll(changed)
      expect({ at, damagedAt }).toEqual({ at, damagedAt: before.at(-1) ?? 0 })
      expect(records.length).toBe(before.length)
    }
  })

  test('a changed byte in the last record costs that record and no other', async () => {
    const { bytes, ends } = journalOf(examples)

    for (let at = ends.at(-2) ?? 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 0x10
      const { records, damagedAt } = await readAll(changed)
      expect({ at, damagedAt, count: records.length }).toEqual({ at, damagedAt: undefined, count: examples.length - 1 })
    }
  })

  test('a length over the bound is refused before anything of that size is held', () => {
    const record = encodeRecord({ type: 'input_closed' }, 0)
    record.writeUInt32BE(payloadMaxBytes + 1, 0)

    expect(decodeRecord(record, journalMagic.length)).toEqual({ type: 'damaged', bytes: undefined })
    expect(record.length).toBe(recordHeadBytes + 2)
  })

  test('reading on from any record gives the rest', async () => {
    const { bytes, ends } = journalOf(examples)
    const path = join(folder, 'from')
    await writeFile(path, bytes)

    for (const [index, end] of ends.entries()) {
      const reader = await openJournal(path, end)
      const rest: JournalRecord[] = []
      for await (const record of reader.readRest()) rest.push(record)
      await reader.close()
      expect(rest.length).toBe(examples.length - index - 1)
    }
  })
})
