import type { Role } from '../core/membership.ts'

/**
 * What one machine keeps outside its stores: keys, what it knows of its mesh, the issuer's book, credentials. All
 * processes of a home share it: each writes whole files and reads again on change. Nothing here checks a signature;
 * envelopes are bytes. Implementation: `store/home`.
 */
export interface Home {
  readonly paths: HomePaths
  readonly keys: KeyFiles
  readonly mesh: MeshFiles
  readonly issuer: IssuerBook
  readonly credentials: CredentialFiles
  readonly running: RunningProcesses
}

/** Absolute paths. Folders are made, closed to others, when something is first written into them. */
export interface HomePaths {
  readonly configFile: string
  readonly credentials: string
  readonly keys: string
  readonly mesh: string
  readonly issuer: string
  readonly node: string
  /** Before any shortening; sockets go where `platform/short-run-dir` says. */
  readonly run: string
  /** @throws {NfltrError} `invalid_argument` where the hub id cannot be a folder's name */
  hub(hubId: string): string
}

/** Which key: the machine's, the mesh's first one and those that took its place, the issuer's transport key, or that of a hub (`hub-` and its id). */
export type KeyName = 'machine' | 'mesh' | `mesh-${number}` | 'issuer' | `hub-${string}`

export interface KeyFiles {
  /**
   * A key's bytes, or `undefined` where there is none.
   *
   * @throws {NfltrError} `insecure_permissions` where others could have read it
   */
  load(name: KeyName): Promise<Uint8Array | undefined>

  /** Writes a new key, mode 0600, durable. @throws {NfltrError} `already_exists`; a key is never overwritten */
  create(name: KeyName, bytes: Uint8Array): Promise<void>

  /**
   * Holds a key for this process, until released or until the process ends (rule 11).
   *
   * @throws {NfltrError} `key_held`, naming the holder in `details` as `pid`, `since`, `host`
   */
  lock(name: KeyName): Promise<Held>

  /** Who holds a key now, where a living process does. */
  holder(name: KeyName): Promise<Holder | undefined>
}

/** Something that one process at a time may hold. */
export interface Held {
  release(): Promise<void>
}

export interface Holder {
  readonly pid: number
  readonly host: string
  /** Wall clock, milliseconds since 1970. */
  readonly sinceMs: number
}

/** This machine's own membership and what belongs to it. */
export interface OwnMembership {
  readonly meshId: string
  readonly membership: Uint8Array
  readonly issuerMembership?: Uint8Array
  readonly issuerCertificates: readonly Uint8Array[]
  readonly relays: readonly string[]
  /** What the issuer said of the keys of the mesh; absent where none was ever replaced. */
  readonly successions?: readonly Uint8Array[]
}

/** One member as the roster keeps it. */
export interface RosterRecord {
  /** PeerId of the member's machine. */
  readonly peerId: string
  readonly serial: number
  readonly membership: Uint8Array
  /** Newest address record of each of the member's processes. */
  readonly addresses: readonly { readonly peerId: string; readonly seq: number; readonly envelope: Uint8Array }[]
  /** Wall clock of the last contact. */
  readonly lastSeenAtMs?: number
}

/** Where a process was reached, newest first. */
export interface AnsweredRecord {
  readonly peerId: string
  /** Without PeerId, with the wall clock of the moment. */
  readonly addresses: readonly { readonly address: string; readonly atMs: number }[]
}

export interface RevocationRecord {
  readonly issuerId: string
  readonly version: number
  readonly envelope: Uint8Array
  /** Another list of the same issuer and version with other content: the issuer, or its key, plays double (rule 15). */
  readonly conflict?: Uint8Array
}

/** What lets a further owner issue, as an envelope; for each issuer the one with the latest end. */
export interface CertificateRecord {
  readonly issuerId: string
  readonly expiresAtMs: number
  readonly envelope: Uint8Array
  /** Place of the mesh key that signed it in the line of keys; absent for the first. One of a later key goes first. */
  readonly keyPlace?: number
}

/** Which key took the place of a key of the mesh, as an envelope. */
export interface SuccessionRecord {
  readonly predecessorPeerId: string
  readonly envelope: Uint8Array
  /** One of the same key that names another: the mesh is closed (rule 17). */
  readonly conflict?: Uint8Array
}

/** A member that gave its membership up by itself, as an envelope; for each machine the one with the highest serial. */
export interface DepartureRecord {
  readonly machinePeerId: string
  readonly serial: number
  readonly envelope: Uint8Array
}

export interface MeshFiles {
  loadMembership(): Promise<OwnMembership | undefined>
  saveMembership(membership: OwnMembership): Promise<void>
  /** Makes this home one of no mesh: what it knew of it is gone, its own membership first. */
  forget(): Promise<void>

  /** Every member, ordered by PeerId. Records that do not read are left out: they are learnt again. */
  roster(): Promise<readonly RosterRecord[]>
  member(peerId: string): Promise<RosterRecord | undefined>
  /** Replaces a member's record as a whole. */
  saveMember(record: RosterRecord): Promise<void>
  removeMember(peerId: string): Promise<void>

  revocations(): Promise<readonly RevocationRecord[]>
  /**
   * Keeps a list unless one with that version or a newer one is kept; a conflict is added to a list that has none.
   *
   * @returns whether it was kept
   */
  saveRevocations(record: RevocationRecord): Promise<boolean>

  certificates(): Promise<readonly CertificateRecord[]>
  /** Keeps a certificate unless one of that issuer that ends as late is kept. @returns whether it was kept */
  saveCertificate(record: CertificateRecord): Promise<boolean>

  /** @throws {NfltrError} `store_damaged` for the first that does not read */
  successions(): Promise<readonly SuccessionRecord[]>
  /** Keeps what a key named first, and a conflict beside it. @returns whether anything was kept */
  saveSuccession(record: SuccessionRecord): Promise<boolean>

  departures(): Promise<readonly DepartureRecord[]>
  /** Keeps a departure unless one of that machine with as high a serial is kept. @returns whether it was kept */
  saveDeparture(record: DepartureRecord): Promise<boolean>
  removeDeparture(machinePeerId: string): Promise<void>

  /** Addresses that answered. Records that do not read are left out, and the oldest beyond a bound forgotten. */
  answered(): Promise<readonly AnsweredRecord[]>
  /** Replaces a process's record as a whole. Not among the changes that `watch` tells of. */
  saveAnswered(record: AnsweredRecord): Promise<void>

  /** The newest verified issue time seen, milliseconds since 1970; 0 where none was (rule 16). */
  seenTimeMs(): Promise<number>
  /** Never lowers it. */
  raiseSeenTime(seenMs: number): Promise<void>

  /** Calls back after something here changed, by this or any other process. Several changes may be one call. */
  watch(listener: () => void): () => void
}

/** An invite as its issuer remembers it. */
export interface InviteRecord {
  /** 32 hex digits. */
  readonly inviteId: string
  readonly secret: Uint8Array
  readonly roles: readonly Role[]
  /** The name the member gets, where the owner chose one. */
  readonly name?: string
  /** The member whose name is taken over. */
  readonly replaces?: string
  readonly createdAtMs: number
  readonly expiresAtMs: number
}

/** Who used an invite. Made before anything is signed; `membership` follows once it is. */
export interface ClaimRecord {
  readonly inviteId: string
  readonly peerId: string
  readonly fingerprint: string
  readonly claimedAtMs: number
  readonly membership?: Uint8Array
}

/** A machine that asks to be let in without an invite. Every text in it is its own word. */
export interface KnockRecord {
  readonly peerId: string
  readonly fingerprint: string
  /** Absent where what it asked for can be no name. */
  readonly name?: string
  readonly roles: readonly Role[]
  readonly address?: string
  readonly sinceMs: number
}

/** What an owner said to a knock. */
export interface KnockAnswer {
  readonly peerId: string
  readonly isApproved: boolean
  readonly roles: readonly Role[]
  /** The name that the person saw or chose; empty where denied. */
  readonly name: string
  readonly atMs: number
  /** Once it was signed. */
  readonly membership?: Uint8Array
}

/** Invites, claims, names and serials: one book under the mesh key, in files, so that any process of the owner can play the issuer (rule 12). */
export interface IssuerBook {
  /** Plays the issuer until released. @throws {NfltrError} `key_held`, naming who plays it */
  lock(): Promise<Held>
  holder(): Promise<Holder | undefined>

  /** Durable when it resolves. Forgets what is older than its bound on the way. */
  addInvite(invite: InviteRecord): Promise<void>
  findInvite(inviteId: string): Promise<InviteRecord | undefined>
  /** Invites that are neither used nor expired. */
  openInvites(nowMs: number): Promise<readonly InviteRecord[]>

  /**
   * Claims an invite for one joiner, durable before it resolves: of any number that try, whatever the process, exactly
   * one wins, and the winner gets its own claim again, with its membership once there is one.
   *
   * @throws {NfltrError} `invite_used` with `details` `used_by` (fingerprint), `used_at_ms`; `invite_expired`;
   *   `invite_invalid` where no such invite is remembered
   */
  claim(request: {
    readonly inviteId: string
    readonly peerId: string
    readonly fingerprint: string
    readonly nowMs: number
  }): Promise<ClaimRecord>
  findClaim(inviteId: string): Promise<ClaimRecord | undefined>
  /** Keeps the membership that a claim led to. */
  settleClaim(claim: ClaimRecord, membership: Uint8Array): Promise<void>

  /**
   * Binds a name to a machine, durable. Binding it to the same machine again changes nothing.
   *
   * @throws {NfltrError} `name_taken` where another machine has it, unless that machine is `replaces`
   */
  takeName(name: string, peerId: string, options?: { readonly replaces?: string }): Promise<void>
  ownerOfName(name: string): Promise<string | undefined>

  /**
   * A serial that was never given before, durable; from 1, and above `above`, the highest that other issuers are known to
   * have given, so that the newer of two memberships is the one with the higher serial whoever signed it.
   */
  nextSerial(above?: number): Promise<number>

  /**
   * Keeps a knock for a day. A machine that knocks again changes nothing of what it said first: that is what the owner saw.
   *
   * @throws {NfltrError} `queue_full` where as many as there may be wait already
   */
  addKnock(knock: KnockRecord): Promise<void>
  /** Those that wait for an answer, oldest first. */
  knocks(nowMs: number): Promise<readonly KnockRecord[]>
  /** Answers a knock, durable; the knock waits no longer. */
  answerKnock(answer: KnockAnswer): Promise<void>
  /** What was said to a machine within the last day. */
  findAnswer(peerId: string, nowMs: number): Promise<KnockAnswer | undefined>

  /** Runs one change of this issuer's revocations at a time, whatever the process. @throws {NfltrError} `key_held` */
  whileRevoking<T>(change: () => Promise<T>): Promise<T>
}

export type CredentialKind = 'api_key' | 'oauth_token' | 'auth_token'

export interface CredentialFiles {
  /** The credential that was added last, or `undefined`. @throws {NfltrError} `insecure_permissions` */
  load(): Promise<{ readonly kind: CredentialKind; readonly secret: string } | undefined>
  save(kind: CredentialKind, secret: string): Promise<void>
}

/** What a running process tells the others of its home. */
export interface RunningProcess {
  readonly kind: string
  readonly peerId: string
  readonly listen: readonly string[]
  readonly hubId?: string
}

export interface RunningProcesses {
  /** Registers this process until released; a second call replaces the first. */
  register(facts: RunningProcess): Promise<Held>
  /** Those that are alive. */
  list(): Promise<readonly (RunningProcess & Holder)[]>
}
