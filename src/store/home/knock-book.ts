import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { NfltrError } from '../../core/errors.ts'
import { limits } from '../../core/limits.ts'
import { ensurePrivateFolder } from '../../platform/files.ts'
import type { HomePaths, IssuerBook, KnockAnswer, KnockRecord } from '../../ports/home.ts'
import { folderName } from './paths.ts'
import { namesIn, type RecordKind, readRecord, writeRecord } from './record-file.ts'
import { serial } from './serial.ts'

const knockKind = {
  name: 'a knock',
  shape: {
    peerId: 'string',
    fingerprint: 'string',
    name: 'string?',
    roles: 'list',
    address: 'string?',
    sinceMs: 'number',
  },
} as const
const answerKind = {
  name: 'the answer to a knock',
  shape: {
    peerId: 'string',
    isApproved: 'boolean',
    roles: 'list',
    name: 'string',
    atMs: 'number',
    membership: 'bytes?',
  },
} as const

type KnockBook = Pick<IssuerBook, 'addKnock' | 'knocks' | 'answerKnock' | 'findAnswer'>

/** Machines that ask to be let in, and what they were told: one small file each, forgotten after a day (rule 38). */
export function knockBook(paths: HomePaths): KnockBook {
  const knocksDir = join(paths.issuer, 'knocks')
  const answersDir = join(paths.issuer, 'answers')
  const inTurn = serial()

  const knocks = async (nowMs: number): Promise<readonly KnockRecord[]> =>
    (await freshOf<KnockRecord>(knocksDir, { kind: knockKind, since: ({ sinceMs }) => sinceMs, nowMs })).toSorted(
      (a, b) => a.sinceMs - b.sinceMs,
    )

  return {
    addKnock: (knock) =>
      inTurn(async () => {
        const waiting = await knocks(knock.sinceMs)
        if (waiting.some(({ peerId }) => peerId === knock.peerId)) return
        if (waiting.length >= limits.knocksMax) {
          throw new NfltrError('queue_full', `${limits.knocksMax} machines wait for an answer already.`, {
            hint: 'Ask the owner to answer them: nfltr mesh pending. An invite needs no waiting.',
          })
        }
        await ensurePrivateFolder(knocksDir)
        await writeRecord(join(knocksDir, folderName(knock.peerId)), knock)
      }),
    knocks,
    answerKnock: async (answer) => {
      await freshOf<KnockAnswer>(answersDir, { kind: answerKind, since: ({ atMs }) => atMs, nowMs: answer.atMs })
      await ensurePrivateFolder(answersDir)
      await writeRecord(join(answersDir, folderName(answer.peerId)), answer)
      await rm(join(knocksDir, folderName(answer.peerId)), { force: true })
    },
    findAnswer: async (peerId, nowMs) => {
      const answer = await readRecord<KnockAnswer>(join(answersDir, folderName(peerId)), answerKind)
      return answer !== undefined && isFresh(answer.atMs, nowMs) ? answer : undefined
    },
  }
}

/** The records of the last day; older ones are removed on the way. */
async function freshOf<T>(
  folder: string,
  of: { readonly kind: RecordKind; readonly since: (record: T) => number; readonly nowMs: number },
): Promise<readonly T[]> {
  const fresh: T[] = []
  for (const name of await namesIn(folder)) {
    const path = join(folder, name)
    const record = await readRecord<T>(path, of.kind)
    if (record === undefined) continue
    if (isFresh(of.since(record), of.nowMs)) fresh.push(record)
    else await rm(path, { force: true })
  }
  return fresh
}

/** A clock that was set back makes nothing last longer than it would otherwise. */
function isFresh(sinceMs: number, nowMs: number): boolean {
  return Math.abs(nowMs - sinceMs) <= limits.knocksKeptMs
}
