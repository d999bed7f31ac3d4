import { type FSWatcher, watch } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { NfltrError } from '../../core/errors.ts'
import { ensurePrivateFolder, errorCode, syncFolder } from '../../platform/files.ts'
import type {
  AnsweredRecord,
  CertificateRecord,
  DepartureRecord,
  HomePaths,
  MeshFiles,
  OwnMembership,
  RevocationRecord,
  RosterRecord,
  SuccessionRecord,
} from '../../ports/home.ts'
import { folderName } from './paths.ts'
import { namesIn, type RecordKind, readRecord, writeRecord } from './record-file.ts'
import { serial } from './serial.ts'

const membershipKind = {
  name: 'a membership',
  shape: {
    meshId: 'string',
    membership: 'bytes',
    issuerMembership: 'bytes?',
    issuerCertificates: 'list',
    relays: 'list',
    successions: 'list?',
  },
} as const
const memberKind = {
  name: 'a member of the roster',
  shape: { peerId: 'string', serial: 'number', membership: 'bytes', addresses: 'list', lastSeenAtMs: 'number?' },
} as const
const revocationsKind = {
  name: 'a revocation list',
  shape: { issuerId: 'string', version: 'number', envelope: 'bytes', conflict: 'bytes?' },
} as const
const certificateKind = {
  name: 'an issuer certificate',
  shape: { issuerId: 'string', expiresAtMs: 'number', envelope: 'bytes', keyPlace: 'number?' },
} as const
const successionKind = {
  name: 'a succession of mesh keys',
  shape: { predecessorPeerId: 'string', envelope: 'bytes', conflict: 'bytes?' },
} as const
const departureKind = {
  name: 'a departure',
  shape: { machinePeerId: 'string', serial: 'number', envelope: 'bytes' },
} as const
const answeredKind = {
  name: 'addresses that answered',
  shape: { peerId: 'string', addresses: 'list' },
} as const
const seenKind = { name: 'the newest issue time', shape: { seenMs: 'number' } } as const

/** Processes of which it is remembered where they answered. */
const answeredMax = 1_024

/** What this machine knows of its mesh: one small file for each fact, replaced as a whole. */
export function meshFiles(paths: HomePaths): MeshFiles {
  const own = join(paths.mesh, 'membership')
  const rosterDir = join(paths.mesh, 'roster')
  const revocationsDir = join(paths.mesh, 'revocations')
  const issuersDir = join(paths.mesh, 'issuers')
  const successionsDir = join(paths.mesh, 'successions')
  const departuresDir = join(paths.mesh, 'departures')
  const answeredDir = join(paths.mesh, 'answered')
  const seen = join(paths.mesh, 'seen-time')
  const inTurn = serial()

  const save = async (folder: string, record: { name: string; value: object }): Promise<void> => {
    await ensurePrivateFolder(folder)
    await writeRecord(join(folder, record.name), record.value)
  }
  const seenTimeMs = async (): Promise<number> => (await readRecord<{ seenMs: number }>(seen, seenKind))?.seenMs ?? 0

  return {
    loadMembership: () => readRecord<OwnMembership>(own, membershipKind),
    saveMembership: (membership) => save(paths.mesh, { name: 'membership', value: membership }),
    forget: async () => {
      await rm(own, { force: true })
      await syncFolder(paths.mesh).catch((error: unknown) => {
        if (errorCode(error) !== 'ENOENT') throw error
      })
      await rm(paths.mesh, { recursive: true, force: true, maxRetries: 3 })
    },
    roster: () => readable<RosterRecord>(rosterDir, memberKind),
    member: (peerId) => readOrForget<RosterRecord>(join(rosterDir, folderName(peerId)), memberKind),
    saveMember: (record) => save(rosterDir, { name: folderName(record.peerId), value: record }),
    removeMember: (peerId) => rm(join(rosterDir, folderName(peerId)), { force: true }),
    revocations: () => allOf<RevocationRecord>(revocationsDir, revocationsKind),
    saveRevocations: (record) =>
      inTurn(async () => {
        const name = folderName(record.issuerId)
        const kept = await readRecord<RevocationRecord>(join(revocationsDir, name), revocationsKind)
        if (kept !== undefined && !isMore(record, kept)) return false
        await save(revocationsDir, { name, value: record })
        return true
      }),
    certificates: () => readable<CertificateRecord>(issuersDir, certificateKind),
    saveCertificate: (record) =>
      inTurn(async () => {
        const name = folderName(record.issuerId)
        const kept = await readOrForget<CertificateRecord>(join(issuersDir, name), certificateKind)
        if (kept !== undefined && !isLaterCertificate(record, kept)) return false
        await save(issuersDir, { name, value: record })
        return true
      }),
    successions: () => allOf<SuccessionRecord>(successionsDir, successionKind),
    saveSuccession: (record) =>
      inTurn(async () => {
        const name = folderName(record.predecessorPeerId)
        const kept = await readRecord<SuccessionRecord>(join(successionsDir, name), successionKind)
        if (kept !== undefined && (kept.conflict !== undefined || record.conflict === undefined)) return false
        await save(successionsDir, { name, value: record })
        return true
      }),
    departures: () => readable<DepartureRecord>(departuresDir, departureKind),
    saveDeparture: (record) =>
      inTurn(async () => {
        const name = folderName(record.machinePeerId)
        const kept = await readOrForget<DepartureRecord>(join(departuresDir, name), departureKind)
        if (kept !== undefined && kept.serial >= record.serial) return false
        await save(departuresDir, { name, value: record })
        return true
      }),
    removeDeparture: (machinePeerId) => rm(join(departuresDir, folderName(machinePeerId)), { force: true }),
    answered: async () => {
      const records = [...(await readable<AnsweredRecord>(answeredDir, answeredKind))].sort(byNewest)
      const tooMany = records.splice(answeredMax)
      for (const { peerId } of tooMany) await rm(join(answeredDir, folderName(peerId)), { force: true })
      return records
    },
    saveAnswered: (record) => save(answeredDir, { name: folderName(record.peerId), value: record }),
    seenTimeMs,
    raiseSeenTime: (seenMs) =>
      inTurn(async () => {
        if (seenMs > (await seenTimeMs())) await save(paths.mesh, { name: 'seen-time', value: { seenMs } })
      }),
    watch: (listener) =>
      watchFolders([paths.mesh, rosterDir, revocationsDir, issuersDir, departuresDir, successionsDir], listener),
  }
}

function byNewest(a: AnsweredRecord, b: AnsweredRecord): number {
  return (b.addresses[0]?.atMs ?? 0) - (a.addresses[0]?.atMs ?? 0)
}

function isLaterCertificate(record: CertificateRecord, kept: CertificateRecord): boolean {
  const byPlace = (record.keyPlace ?? 0) - (kept.keyPlace ?? 0)
  return byPlace === 0 ? record.expiresAtMs > kept.expiresAtMs : byPlace > 0
}

/** A version is never lowered, and a conflict is never forgotten below the next version. */
function isMore(record: RevocationRecord, kept: RevocationRecord): boolean {
  if (record.version !== kept.version) return record.version > kept.version
  return record.conflict !== undefined && kept.conflict === undefined
}

/** Every record of a folder. @throws {NfltrError} `store_damaged` for the first that does not read */
async function allOf<T>(folder: string, kind: RecordKind): Promise<readonly T[]> {
  const records: T[] = []
  for (const name of await namesIn(folder)) {
    const record = await readRecord<T>(join(folder, name), kind)
    if (record !== undefined) records.push(record)
  }
  return records
}

/** As `allOf`, for what is learnt again from others when it is lost. */
async function readable<T>(folder: string, kind: RecordKind): Promise<readonly T[]> {
  const records: T[] = []
  for (const name of await namesIn(folder)) {
    const record = await readOrForget<T>(join(folder, name), kind)
    if (record !== undefined) records.push(record)
  }
  return records
}

async function readOrForget<T>(path: string, kind: RecordKind): Promise<T | undefined> {
  try {
    return await readRecord<T>(path, kind)
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'store_damaged') return undefined
    throw error
  }
}

/** Calls back once for all changes of one turn of the event loop. */
function watchFolders(folders: readonly string[], listener: () => void): () => void {
  const watchers: FSWatcher[] = []
  let isClosed = false
  let isDue = false
  const changed = (_event: string, name: string | null): void => {
    if (isDue || isClosed || name?.startsWith('.') === true) return
    isDue = true
    setImmediate(() => {
      isDue = false
      if (!isClosed) listener()
    })
  }
  const start = async (): Promise<void> => {
    for (const folder of folders) {
      if (isClosed) return
      await ensurePrivateFolder(folder)
      if (isClosed) return
      // A daemon must not stay up for its watchers alone. One that fails (too many of the user's) only means that
      // changes by other processes are seen later, when the records are read for another reason.
      watchers.push(watch(folder, { persistent: false }, changed).on('error', () => undefined))
    }
    // What changed before the watchers stood is not lost.
    changed('change', null)
  }
  start().catch(() => undefined)
  return () => {
    isClosed = true
    for (const watcher of watchers) watcher.close()
  }
}
