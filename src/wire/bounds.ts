import { limits } from '../core/limits.ts'

/** The largest value a field may have: bytes of one string or byte string, and for a list how many elements. */
export interface Bound {
  readonly maxBytes?: number
  readonly maxCount?: number
}

const bytes = (maxBytes: number): Bound => ({ maxBytes })
const list = (maxCount: number, maxBytes?: number): Bound =>
  maxBytes === undefined ? { maxCount } : { maxCount, maxBytes }

const id = bytes(128)
const key = bytes(limits.idempotencyKeyMaxBytes)
const word = bytes(64)
const hash = bytes(128)
const prose = bytes(limits.detailMaxBytes)
const path = bytes(4096)
/** One signed envelope: key, signature, payload type and payload. */
const envelopeMaxBytes = 4096
const envelope = bytes(envelopeMaxBytes)
const addresses = list(limits.addressesMax, limits.addressMaxBytes)
const relays = list(4, limits.addressMaxBytes)
const issuerCertificates = list(8, 1024)
/** Two for each key of the mesh that may be replaced: a second one contradicts the first. */
const successions = list(2 * limits.successionsMax, 512)
const revocationVersions = list(64)

/** Revocation lists in one update; together they are bounded by the message (`limits.revocationsMaxBytes`). */
const revocationLists = list(64, limits.revocationsMaxBytes)

/** The last moment that RFC 3339 can write, at the end of the year 9999: a later one could be shown to nobody. */
export const instantMaxMs = 253_402_300_799_999

/**
 * What every string, byte string and list on the wire may hold, by message and field of the `.proto` files. A field
 * without a row is refused by a test. Numbers are bounded by their type: whole, not negative, at most 2^53 - 1;
 * a moment ends with the year 9999.
 *
 * @see docs/reference/limits.md
 */
export const bounds: Readonly<Record<string, Readonly<Record<string, Bound>>>> = {
  SessionOpen: { hub_id: id, lanes: list(8), fences: list(1500) },
  SessionAccept: { lanes: list(8), boot_id: id, inventory: list(1000) },
  SessionRefused: { code: word, message: prose, lanes: list(8) },
  LaneCursor: { store_id: id, hash: word, peer_store_id: id },
  Fence: { attempt_id: id },
  InventoryEntry: { attempt_id: id, state: word, keeper: word },
  Part: { bytes: bytes(limits.sessionFrameMaxBytes), digest: bytes(8) },
  Progress: { note: bytes(1024) },
  CaughtUp: { heads: list(8) },
  NodeCard: {
    description: bytes(limits.descriptionMaxBytes),
    labels: list(limits.labelsMax),
    capabilities: list(limits.capabilitiesMax, limits.labelMaxBytes),
    offers: list(limits.offersMax),
    credential: word,
    version: word,
    claude_version: word,
    os: word,
    arch: word,
  },
  Offer: { name: bytes(limits.nameMaxBytes), mode: word },
  Allows: { all_tools: word, repos: list(64, 512) },
  Unavailable: { reason: word, message: prose },
  Pair: { key: bytes(limits.labelMaxBytes), value: prose },
  AttemptRef: { agent_id: id, task_id: id, attempt_id: id },
  WorkMessage: { kind: word, command_id: key },
  Claim: { title: bytes(limits.titleMaxBytes), dir: path, resume_session_id: id },
  TurnRequest: { brief: bytes(limits.briefMaxBytes), model: bytes(256), effort: word },
  Steer: { message_id: key, text: bytes(limits.messageTextMaxBytes) },
  Stop: { reason: prose },
  Collected: { result_hash: hash },
  Declined: { reason: word, message: prose },
  Started: { session_id: id },
  MessageFate: { message_id: key, state: word },
  TaskEvents: { events: list(limits.taskEventsPerMessageMax) },
  TaskEvent: { type: word, text: bytes(limits.eventTextMaxBytes), fields: list(32) },
  AttemptResult: {
    outcome: word,
    reason: word,
    text: bytes(limits.resultTextMaxBytes),
    hint: prose,
    denied: list(limits.deniedMax),
    messages: list(1024),
    session_id: id,
    exit_proof: word,
    stop_command_id: key,
    details: list(32),
  },
  DeniedTool: { tool: bytes(256), input: bytes(limits.deniedInputMaxBytes) },
  KeeperGone: { message: prose },
  Receipt: { receipt_id: hash, envelope },
  Unsupported: { kind: word },
  Inventory: { attempts: list(limits.inventoryPageMax), orphans: list(limits.inventoryPageMax, 128) },
  AttemptSummary: { state: word, title: bytes(limits.titleMaxBytes) },
  Quarantined: { kind: word, message: prose },
  Membership: {
    mesh_id: id,
    issuer_id: id,
    machine_peer_id: id,
    name: bytes(limits.nameMaxBytes),
    roles: list(16, 64),
  },
  IssuerCertificate: { mesh_id: id, issuer_id: id, key_peer_id: id },
  ProcessCertificate: { mesh_id: id, machine_peer_id: id, process_peer_id: id, kind: word, hub_id: id },
  Revocations: { mesh_id: id, issuer_id: id, entries: list(10_000) },
  Revocation: { peer_id: id },
  Departure: { mesh_id: id, machine_peer_id: id },
  Succession: { mesh_id: id, successor_peer_id: id },
  AddressRecord: { mesh_id: id, peer_id: id, kind: word, hub_id: id, addresses, relays },
  ReceiptBody: {
    hub_id: id,
    agent_id: id,
    task_id: id,
    attempt_id: id,
    owner: id,
    inputs_hash: hash,
    outcome: word,
    reason: word,
    result_hash: hash,
    previous_hash: hash,
  },
  Invite: { mesh_key: bytes(32), issuer_key: bytes(32), addresses, relays, invite_id: bytes(16), secret: bytes(16) },
  Hello: {
    revisions: list(16),
    mesh_id: id,
    revocation_versions: revocationVersions,
    membership: envelope,
    process_certificate: envelope,
    issuer_certificates: issuerCertificates,
    successions,
    incarnation: id,
    kind: word,
    hub_id: id,
    software_version: word,
  },
  RevocationVersion: { issuer_id: id, digest: word },
  RevocationUpdate: { lists: revocationLists },
  Refused: { code: word, message: bytes(1024), used_by: hash },
  JoinStart: { mesh_id: id, invite_id: word, nonce: bytes(32) },
  JoinChallenge: {
    mesh_id: id,
    issuer_membership: envelope,
    issuer_certificate: envelope,
    nonce: bytes(32),
    proof: bytes(32),
    issuer_certificates: issuerCertificates,
    successions,
  },
  JoinProof: {
    proof: bytes(32),
    name_wanted: bytes(limits.nameMaxBytes),
    address_record: envelope,
    software_version: word,
    os: word,
    arch: word,
    roles_wanted: list(8, 64),
  },
  Joined: {
    membership: envelope,
    issuer_membership: envelope,
    issuer_certificates: issuerCertificates,
    relays,
    successions,
  },
  RosterDigest: { entries: list(limits.rosterMembersMax), revocation_versions: revocationVersions },
  RosterDigestEntry: { peer_id: id },
  RosterPush: {
    members: list(limits.rosterMembersMax),
    revocations: revocationLists,
    issuer_certificates: list(64, 1024),
    departures: list(limits.rosterMembersMax, 1024),
    successions,
  },
  RosterMember: { membership: envelope, address_records: list(16, envelopeMaxBytes) },
  AccountAsk: { after: id },
  AccountPage: { attempts: list(limits.accountPageMax) },
  AccountAttempt: { agent_id: id, task_id: id, attempt_id: id, text_hash: word, receipt_id: hash },
  AccountRefused: { code: word, message: bytes(1024) },
}
