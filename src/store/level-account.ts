import { randomBytes } from 'node:crypto'
import { decodeRecord, encodeRecord } from '../core/record-json.ts'
import type { StoreDamage, StoreIdentity } from '../ports/store.ts'
import { addRecord, type Digest, emptyDigest, sameDigest } from './digest.ts'
import type { Database } from './level-database.ts'
import { pagesOf } from './level-scan.ts'
import { type Seal, sealKey } from './level-writer.ts'
import { ownFormat, storeFormat } from './migrations/migrations.ts'
import { openRecord, sealRecord } from './record-envelope.ts'
import type { StoreMarker } from './store-files.ts'

export const identityKey = 'meta/identity'
/** What its last repair lost; whoever works with the store comes to terms with it. */
export const lossesKey = 'meta/losses'
/** Keys that the store keeps for itself. */
export const ownPrefix = 'meta/'

/** The store's own records: who it is, and how far it has come. */
export interface Account {
  readonly identity: StoreIdentity
  readonly seal: Seal
}

export interface LossesRecord {
  /** The incarnation that began with the repair. */
  readonly incarnation: number
  readonly losses: readonly StoreDamage[]
}

/** Why a store is refused. */
export interface Objection {
  readonly found: string
  readonly details: Readonly<Record<string, unknown>>
}

/** Reads the store's own records and holds them against its marker; makes them where there never was a store. */
export async function readAccount(
  database: Database,
  marker: StoreMarker | undefined,
  isCopy: boolean,
): Promise<Account | Objection> {
  const sealed = { identity: database.getSync(identityKey), seal: database.getSync(sealKey) }
  if (sealed.identity === undefined || sealed.seal === undefined) {
    if (marker === undefined && (await isEmpty(database))) return initialise(database)
    return { found: 'its own records were missing', details: { found: 'no identity' } }
  }
  const identity = decodeRecord<StoreIdentity>(openRecord(identityKey, sealed.identity))
  const seal = decodeRecord<Seal>(openRecord(sealKey, sealed.seal))
  if (marker === undefined) return { identity, seal }
  if (marker.storeId !== identity.storeId) {
    const details = { found: identity.storeId, expected: marker.storeId }
    return { found: 'it was another store than the one its marker names', details }
  }
  if (isCopy || seal.commits >= marker.commits) return { identity, seal }
  return {
    found: `it ended at commit ${seal.commits}, and commit ${marker.commits} had been made`,
    details: { found: seal.commits, expected: marker.commits },
  }
}

async function isEmpty(database: Database): Promise<boolean> {
  for await (const page of pagesOf(database, { limit: 1 })) return page.length === 0
  return true
}

/**
 * The same store under another incarnation, on disk before anything is done with it: its folder is a copy, which holds
 * what was there when it was made (rule 6). One that was only moved is none.
 */
export async function renew(
  database: Database,
  identity: StoreIdentity,
  marker: StoreMarker | undefined,
): Promise<StoreIdentity> {
  const incarnation = Math.max(identity.incarnation, marker?.incarnation ?? 0) + 1
  const renewed: StoreIdentity = { ...identity, incarnation }
  const value = sealRecord(identityKey, encodeRecord(renewed), ownFormat)
  await database.batch([{ type: 'put', key: identityKey, value }], { sync: true })
  return renewed
}

export function markerOf(
  identity: StoreIdentity,
  { commits }: Seal,
  born: string | undefined,
  format = storeFormat,
): StoreMarker {
  return { format, ...identity, commits, ...(born === undefined ? {} : { born }) }
}

async function initialise(database: Database): Promise<Account> {
  const account: Account = {
    identity: { storeId: randomBytes(16).toString('hex'), incarnation: 1 },
    seal: { commits: 0, digest: emptyDigest },
  }
  await database.batch(ownRecords(account), { sync: true })
  return account
}

/** An account as it is written, with what else goes into the same batch. */
export function ownRecords({ identity, seal }: Account): { type: 'put'; key: string; value: Uint8Array }[] {
  return [
    { type: 'put', key: identityKey, value: sealRecord(identityKey, encodeRecord(identity), ownFormat) },
    { type: 'put', key: sealKey, value: sealRecord(sealKey, encodeRecord(seal), ownFormat) },
  ]
}

/** What was lost when the present incarnation began. */
export function readLosses(database: Database, { incarnation }: StoreIdentity): readonly StoreDamage[] {
  const record = database.getSync(lossesKey)
  if (record === undefined) return []
  const known = decodeRecord<LossesRecord>(openRecord(lossesKey, record))
  return known.incarnation === incarnation ? known.losses : []
}

/** What all records together come to, and what they were last said to come to. */
export class Tally {
  #digest: Digest = emptyDigest
  #seal: Seal | undefined
  readonly #newest: number

  constructor(newest = storeFormat) {
    this.#newest = newest
  }

  /** @throws {NfltrError} `store_damaged`, `store_newer` */
  add(key: string, record: Uint8Array): void {
    const value = openRecord(key, record, this.#newest)
    if (key === sealKey) this.#seal = decodeRecord<Seal>(value)
    if (!key.startsWith(ownPrefix)) this.#digest = addRecord(this.#digest, record)
  }

  get digest(): Digest {
    return this.#digest
  }

  /** What is wrong with them as a whole, or undefined. */
  objection(): string | undefined {
    if (this.#seal === undefined) return 'its own records were missing'
    const { digest } = this.#seal
    if (sameDigest(this.#digest, digest)) return undefined
    const found = `${this.#digest.records} records were found where ${digest.records} were written`
    return this.#digest.records === digest.records ? `${found}, and not all as they were written` : found
  }
}
