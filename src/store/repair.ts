import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, renameSync } from 'node:fs'
import process from 'node:process'
import { NfltrError } from '../core/errors.ts'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import { bootId } from '../platform/process-table.ts'
import type { StoreDamage, StoreIdentity } from '../ports/store.ts'
import { rowOf } from './keyspace.ts'
import { identityKey, type LossesRecord, lossesKey, markerOf, Tally } from './level-account.ts'
import { heldError } from './level-store.ts'
import { type Seal, sealKey } from './level-writer.ts'
import { ownFormat } from './migrations/migrations.ts'
import { buildDatabase, swapDatabase } from './rebuild.ts'
import { openRecord, sealRecord } from './record-envelope.ts'
import { type Correction, type Loss, Salvage } from './salvage.ts'
import {
  bornOf,
  holderRuns,
  readHolder,
  readMarker,
  removeFile,
  type StoreMarker,
  storeFiles,
  thisHolder,
  writeMarker,
  writeWhole,
} from './store-files.ts'

/** What a repair found and did. */
export interface RepairReport {
  /** `sound`: there was nothing to do. `whole`: everything was put right. `lossy`: what is named was lost. */
  readonly outcome: 'sound' | 'whole' | 'lossy'
  readonly storeId: string
  readonly incarnation: number
  /** Records that are there, and how many there should be, where the store still knew. */
  readonly records: number
  readonly recordsExpected?: number
  readonly corrections: readonly Correction[]
  /** With what the keys hold, where the loss names keys of one kind. */
  readonly losses: readonly (Loss & { readonly holds?: string })[]
  /** Where the files are that were found. */
  readonly keptAs?: string
}

/**
 * Looks at every byte of a store that no process has open, and makes a sound one of what is sound. The files that were found
 * are kept beside it. Where something was lost, or may be at an older value, the store goes on under another incarnation, so
 * that its peers send again what they hold (rule 6).
 *
 * @throws {NfltrError} `not_found` where there is no store; `store_held`; `store_newer`; `disk_full`; `store_failed`
 */
export async function repairStore(dir: string): Promise<RepairReport> {
  const files = storeFiles(dir)
  const source = sourceOf(dir)
  if (source === undefined) {
    throw new NfltrError('not_found', `There was no store in ${dir}.`, { hint: 'Name the right home or hub.' })
  }
  const formerHolder = claim(files.holder)
  try {
    const { marker, isDamaged } = markerOr(files.marker)
    const mayBeTorn = marker === undefined || (formerHolder !== undefined && formerHolder.boot_id !== bootId())
    const { salvage, found } = salvageBest(source, { marker, mayBeTorn, evidence: files.evidence })
    const isSound = salvage.losses.length === 0 && salvage.corrections.length === 0 && source === files.db
    if (isSound && found.losses.length === 0 && !isDamaged) {
      return { outcome: 'sound', ...found.identity, ...found.counts, corrections: [], losses: [] }
    }
    const corrections = [
      ...salvage.corrections,
      ...salvage.losses
        .filter((loss) => !found.losses.includes(loss))
        .map(({ file = 'db', found }) => ({ file, found })),
      ...(isDamaged ? [{ file: 'db.marker', found: 'it could not be read' }] : []),
    ]
    const isWhole = found.losses.length === 0
    const { storeId, incarnation } = found.identity
    const identity: StoreIdentity = { storeId, incarnation: isWhole ? incarnation : incarnation + 1 }
    const losses = [...earlierLosses(salvage, found.identity), ...found.losses]
    const note = sealRecord(
      lossesKey,
      encodeRecord({ incarnation: identity.incarnation, losses } satisfies LossesRecord),
      ownFormat,
    )
    const own = losses.length === 0 ? [] : [{ type: 'put', key: lossesKey, value: note } as const]
    const made = `${files.db}.repaired`
    const kept = source === files.db ? freeName(`${files.db}.damaged`) : undefined
    const account = await buildDatabase(made, salvage.records(), { identity, commits: found.commits + 1, own })
    if (readHolder(files.holder)?.pid !== process.pid) throw heldError(undefined, files.holder)
    swapDatabase({ made, db: files.db, kept })
    writeMarker(files.marker, markerOf(identity, account.seal, bornOf(files.db)))
    if (existsSync(files.evidence)) renameSync(files.evidence, freeName(files.evidence))
    return {
      outcome: isWhole ? 'whole' : 'lossy',
      ...identity,
      ...found.counts,
      corrections,
      losses: found.losses.map(named),
      keptAs: kept ?? source,
    }
  } finally {
    letGo(files.holder)
  }
}

/**
 * With the tables that were kept when they were found damaged, where that makes the store whole. Where it does not they are
 * left out: a record in one of them may have been deleted since.
 */
function salvageBest(
  source: string,
  of: { readonly marker: StoreMarker | undefined; readonly mayBeTorn: boolean; readonly evidence: string },
) {
  const { marker, mayBeTorn, evidence } = of
  const salvage = new Salvage(source, { mayBeTorn })
  const found = examine(salvage, marker)
  if (found.losses.length === 0 || !existsSync(evidence)) return { salvage, found }
  const more = new Salvage(source, { mayBeTorn, evidence })
  const foundMore = examine(more, marker)
  return foundMore.losses.length === 0 ? { salvage: more, found: foundMore } : { salvage, found }
}

/** Where the records are: in the database, or in what an interrupted repair had put aside. */
function sourceOf(dir: string): string | undefined {
  const { db } = storeFiles(dir)
  if (existsSync(db)) return db
  if (!existsSync(dir)) return undefined
  const numbers = readdirSync(dir)
    .flatMap((name) => /^db\.damaged-(\d+)$/.exec(name)?.[1] ?? [])
    .map(Number)
  return numbers.length === 0 ? undefined : `${db}.damaged-${Math.max(...numbers)}`
}

/** Puts this process's word where a holder leaves his. @returns the word of the one before. @throws {NfltrError} `store_held` */
export function claim(holderFile: string): ReturnType<typeof readHolder> {
  const holder = readHolder(holderFile)
  if (holder !== undefined && holderRuns(holder)) throw heldError(undefined, holderFile)
  writeWhole(holderFile, { ...thisHolder(), task: 'repair' })
  return holder
}

/** Takes the word back that `claim` left; that of another holder, who came meanwhile, stays. */
export function letGo(holderFile: string): void {
  if (readHolder(holderFile)?.pid === process.pid) removeFile(holderFile)
}

function markerOr(path: string): { readonly marker: StoreMarker | undefined; readonly isDamaged: boolean } {
  try {
    return { marker: readMarker(path), isDamaged: false }
  } catch (error) {
    if (error instanceof NfltrError && error.code === 'store_damaged') return { marker: undefined, isDamaged: true }
    throw error
  }
}

/** Holds what can be read against what the store itself says of it. */
function examine(salvage: Salvage, marker: StoreMarker | undefined) {
  let losses: Loss[] = [...salvage.losses]
  const identityRecord = salvage.find(identityKey)
  const sealed = salvage.find(sealKey)
  const identity: StoreIdentity =
    identityRecord === undefined
      ? { storeId: marker?.storeId ?? randomBytes(16).toString('hex'), incarnation: marker?.incarnation ?? 1 }
      : decodeRecord<StoreIdentity>(openRecord(identityKey, identityRecord))
  const seal = sealed === undefined ? undefined : decodeRecord<Seal>(openRecord(sealKey, sealed))
  if (identityRecord === undefined)
    losses.push({ kind: 'record', found: 'it was missing', from: identityKey, to: identityKey, state: 'gone' })
  const commits = Math.max(seal?.commits ?? 0, marker?.commits ?? 0)
  if (seal === undefined)
    losses.push({ kind: 'record', found: 'it was missing', from: sealKey, to: sealKey, state: 'gone' })
  else if (seal.commits < commits)
    losses.push({ kind: 'tail', found: `the last commit there was ${seal.commits}, and ${commits} had been made` })
  else {
    const objection = tallyOf(salvage)
    // What could not be read is then in nothing that counts: elsewhere too, or written anew since.
    if (objection === undefined)
      losses = losses.filter(({ kind, from }) => kind === 'tail' || (kind === 'record' && from === identityKey))
    else if (losses.length === 0) losses.push({ kind: 'file', found: objection })
  }
  const own = [identityRecord, sealed, salvage.find(lossesKey)].filter((record) => record !== undefined).length
  const counts = {
    records: salvage.count - own,
    ...(seal === undefined ? {} : { recordsExpected: seal.digest.records }),
  }
  const highest = Math.max(identity.incarnation, marker?.storeId === identity.storeId ? marker.incarnation : 0)
  return { identity: { ...identity, incarnation: highest }, commits, counts, losses }
}

/** What a repair before this one lost, in case nobody has come to terms with it yet. */
function earlierLosses(salvage: Salvage, { incarnation }: StoreIdentity): readonly StoreDamage[] {
  const record = salvage.find(lossesKey)
  if (record === undefined) return []
  const known = decodeRecord<LossesRecord>(openRecord(lossesKey, record))
  return known.incarnation === incarnation ? known.losses : []
}

function tallyOf(salvage: Salvage): string | undefined {
  const tally = new Tally()
  for (const [key, record] of salvage.records()) tally.add(key, record)
  return tally.objection()
}

function named(loss: Loss): Loss & { readonly holds?: string } {
  const { from, to } = loss
  const row = from === undefined ? undefined : rowOf(from)
  return row === undefined || to === undefined || rowOf(to) !== row ? loss : { ...loss, holds: row.holds }
}

/** A name that nothing has yet. */
export function freeName(path: string): string {
  for (let number = 1; ; number++) if (!existsSync(`${path}-${number}`)) return `${path}-${number}`
}
