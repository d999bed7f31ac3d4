import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Membership } from '../core/membership.ts'
import type { MeshFiles, RosterRecord } from '../ports/home.ts'
import type { MemberFacts, Unsubscribe } from '../ports/peers.ts'
import type { AddressRecord } from '../wire/record-codec.ts'

/** The part of a home that the mesh reads and writes. */
export type RosterFiles = Pick<MeshFiles, 'roster' | 'saveMember' | 'watch'>

/** Opens what others signed. Both throw a typed refusal for anything that does not prove itself. */
export interface Openers {
  readonly openMembership: (envelope: Uint8Array) => Promise<Membership>
  readonly openAddressRecord: (envelope: Uint8Array) => Promise<AddressRecord>
}

export interface Signed<T> {
  readonly body: T
  readonly envelope: Uint8Array
}

export interface RosterEntry {
  readonly membership: Signed<Membership>
  /** By process PeerId, newest only. */
  readonly records: ReadonlyMap<string, Signed<AddressRecord>>
  readonly lastSeenAtMs?: number
}

interface Offered {
  readonly membership: Uint8Array
  readonly addressRecords: readonly Uint8Array[]
}

interface Opened {
  readonly membership: Signed<Membership>
  readonly records: readonly Signed<AddressRecord>[]
}

/** Processes of one machine whose addresses are kept. */
const recordsPerMemberMax = 16

/**
 * The member directory: each machine's newest membership and the newest address record of each of its processes. In memory
 * for whoever asks, in the home's store for the next start and for the other processes of this home.
 *
 * Newest wins: the higher serial of a membership (and, between equal ones, the later issue), the higher `seq` of a record.
 * Nothing enters without its signature checked.
 */
export class Roster {
  readonly #files: RosterFiles
  readonly #openers: Openers
  readonly #entries = new Map<string, RosterEntry>()
  readonly #listeners = new Set<() => void>()
  readonly #stopWatching: Unsubscribe
  /** Writes of this process follow one another, so that an older state never lands on a newer one. */
  #tail: Promise<unknown> = Promise.resolve()
  #isClosed = false

  private constructor(files: RosterFiles, openers: Openers) {
    this.#files = files
    this.#openers = openers
    this.#stopWatching = files.watch(() => {
      // A home that cannot be read is told by whoever needs it; the next change is another chance here.
      this.#reload().catch(() => {})
    })
  }

  static async load(files: RosterFiles, openers: Openers): Promise<Roster> {
    const roster = new Roster(files, openers)
    await roster.#reload()
    return roster
  }

  /** Takes nothing more; resolves once what was taken is on disk. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#stopWatching()
    this.#listeners.clear()
    await this.#tail
  }

  watch(listener: () => void): Unsubscribe {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  entries(): readonly RosterEntry[] {
    return [...this.#entries.values()]
  }

  entryOf(machinePeerId: string): RosterEntry | undefined {
    return this.#entries.get(machinePeerId)
  }

  members(): readonly MemberFacts[] {
    return this.entries().map(factsOfMember)
  }

  /** The highest serial of any membership here. */
  highestSerial(): number {
    return Math.max(0, ...this.entries().map((entry) => entry.membership.body.serial))
  }

  /** The newest issue time of any membership here: the wall clock cannot be before it (rule 16). */
  newestIssueMs(): number {
    return Math.max(0, ...this.entries().map((entry) => entry.membership.body.issuedAtMs))
  }

  /**
   * Takes a membership and address records after checking them; on disk when it resolves. Records count for the machine
   * itself, for processes that were known before, and for `vouched`, a process whose hello showed a certificate of the
   * machine.
   *
   * @returns whether anything was new
   * @throws {NfltrError} what an opener found wrong; `wrong_mesh`
   */
  async take(
    offered: Offered,
    options: { readonly vouched?: string; readonly seenAtMs?: number } = {},
  ): Promise<boolean> {
    const opened = await this.#open(offered)
    const { machinePeerId } = opened.membership.body
    // Looked up after the signatures were checked: another exchange may have brought the member meanwhile.
    const known = this.#entries.get(machinePeerId)
    if (known === undefined && this.#entries.size >= limits.rosterMembersMax) {
      throw new NfltrError('queue_full', `The mesh has more than ${limits.rosterMembersMax} members.`)
    }
    const isVouched = (peerId: string): boolean => peerId === machinePeerId || peerId === options.vouched
    const merged = merge(known, { ...opened, seenAtMs: options.seenAtMs, isVouched })
    if (!merged.isNews && merged.entry.lastSeenAtMs === known?.lastSeenAtMs) return false
    this.#entries.set(machinePeerId, merged.entry)
    await this.#save(machinePeerId)
    if (merged.isNews) this.#tell()
    return merged.isNews
  }

  /** Notes that a member was reached. */
  async seen(machinePeerId: string, atMs: number): Promise<void> {
    const entry = this.#entries.get(machinePeerId)
    if (entry === undefined) return
    this.#entries.set(machinePeerId, { ...entry, lastSeenAtMs: atMs })
    await this.#save(machinePeerId)
  }

  #save(machinePeerId: string): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    const saved = this.#tail.then(async () => {
      const entry = this.#entries.get(machinePeerId)
      if (entry !== undefined) await this.#files.saveMember(toRecord(entry))
    })
    this.#tail = saved.catch(() => {})
    return saved
  }

  async #reload(): Promise<void> {
    let isNews = false
    for (const record of await this.#files.roster()) isNews = (await this.#takeStored(record)) || isNews
    if (isNews) this.#tell()
  }

  /** A record that does not prove itself is passed over: the next exchange with a member brings it again. */
  async #takeStored(record: RosterRecord): Promise<boolean> {
    const known = this.#entries.get(record.peerId)
    if (known !== undefined && isSame(record, known)) return false
    try {
      const offered = await this.#open({
        membership: record.membership,
        addressRecords: record.addresses.map((address) => address.envelope),
      })
      if (offered.membership.body.machinePeerId !== record.peerId) return false
      const merged = merge(known, { ...offered, seenAtMs: record.lastSeenAtMs, isVouched: () => true })
      this.#entries.set(record.peerId, merged.entry)
      return merged.isNews
    } catch {
      return false
    }
  }

  async #open(offered: Offered): Promise<Opened> {
    const membership = { body: await this.#openers.openMembership(offered.membership), envelope: offered.membership }
    const records: Signed<AddressRecord>[] = []
    for (const envelope of offered.addressRecords) {
      records.push({ body: await this.#openers.openAddressRecord(envelope), envelope })
    }
    return { membership, records }
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener()
  }
}

export function factsOfMember({ membership: { body }, records, lastSeenAtMs }: RosterEntry): MemberFacts {
  return {
    machinePeerId: body.machinePeerId,
    name: body.name,
    roles: body.roles,
    addresses: records.get(body.machinePeerId)?.body.addresses ?? [],
    issuedAtMs: body.issuedAtMs,
    expiresAtMs: body.expiresAtMs,
    ...(body.namedAtMs === undefined ? {} : { namedAtMs: body.namedAtMs }),
    ...(lastSeenAtMs === undefined ? {} : { lastSeenAtMs }),
  }
}

function isLater(a: Membership, b: Membership): boolean {
  return a.serial > b.serial || (a.serial === b.serial && a.issuedAtMs > b.issuedAtMs)
}

function merge(
  known: RosterEntry | undefined,
  offered: Opened & { readonly seenAtMs: number | undefined; readonly isVouched: (peerId: string) => boolean },
): { readonly entry: RosterEntry; readonly isNews: boolean } {
  const membership =
    known === undefined || isLater(offered.membership.body, known.membership.body)
      ? offered.membership
      : known.membership
  const records = new Map(known?.records)
  let isNews = membership !== known?.membership
  for (const record of offered.records) {
    const { peerId, seq } = record.body
    const before = records.get(peerId)
    if (before === undefined ? !offered.isVouched(peerId) : before.body.seq >= seq) continue
    // Newest last: the map's order is the order in which processes are forgotten.
    records.delete(peerId)
    records.set(peerId, record)
    isNews = true
  }
  for (const oldest of records.keys()) {
    if (records.size <= recordsPerMemberMax) break
    if (oldest !== membership.body.machinePeerId) records.delete(oldest)
  }
  const lastSeenAtMs = Math.max(offered.seenAtMs ?? 0, known?.lastSeenAtMs ?? 0)
  return { entry: { membership, records, ...(lastSeenAtMs === 0 ? {} : { lastSeenAtMs }) }, isNews }
}

/** Whether a stored record says nothing that is not known: the usual case after a write of our own. */
function isSame(record: RosterRecord, known: RosterEntry): boolean {
  return (
    record.serial <= known.membership.body.serial &&
    (record.lastSeenAtMs ?? 0) <= (known.lastSeenAtMs ?? 0) &&
    record.addresses.every(({ peerId, seq }) => (known.records.get(peerId)?.body.seq ?? -1) >= seq)
  )
}

function toRecord(entry: RosterEntry): RosterRecord {
  return {
    peerId: entry.membership.body.machinePeerId,
    serial: entry.membership.body.serial,
    membership: entry.membership.envelope,
    addresses: [...entry.records.values()].map(({ body, envelope }) => ({
      peerId: body.peerId,
      seq: body.seq,
      envelope,
    })),
    ...(entry.lastSeenAtMs === undefined ? {} : { lastSeenAtMs: entry.lastSeenAtMs }),
  }
}
