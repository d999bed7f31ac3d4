import fc from 'fast-check'
import { type ErrorCode, errorCodes } from '../../src/core/errors.ts'
import { limits } from '../../src/core/limits.ts'
import type { AttemptRef, ControlMessage, LaneCursor, SessionFrame, WorkMessage } from '../../src/core/messages.ts'
import { type AttemptResult, eventTypes, type NodeCard, reasons } from '../../src/core/model.ts'
import type { AccountMessage } from '../../src/wire/account-codec.ts'

/** Values that a correct peer may send: bounded, well-formed, and without the fields that are absent. */
export const count = fc.oneof(fc.nat(), fc.constantFrom(0, 1, 2 ** 32, Number.MAX_SAFE_INTEGER))
/** A moment of the wall clock. */
export const instant = fc.oneof(fc.nat(), fc.constantFrom(0, 1_700_000_000_000, 253_402_300_799_999))
export const small = fc.oneof(fc.nat({ max: 100 }), fc.constantFrom(0, 0xffff_ffff))
export const id = fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 64 })
export const text = (maxLength: number): fc.Arbitrary<string> => fc.string({ unit: 'grapheme', maxLength })
export const bytes = (minLength: number, maxLength: number): fc.Arbitrary<Uint8Array> =>
  fc.uint8Array({ minLength, maxLength }).map((array) => new Uint8Array(array))
export const prose = text(40)
const reason = fc.constantFrom(...reasons)
const amount = fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }).map((value) => value + 0)
const facts = fc.dictionary(
  id.filter((key) => key !== '__proto__'),
  prose,
  { maxKeys: 6, noNullPrototype: true },
)

/** A record whose optional fields are absent rather than undefined. */
export function record<T, K extends keyof T>(
  model: { [P in keyof T]: fc.Arbitrary<T[P]> },
  requiredKeys: readonly K[],
): fc.Arbitrary<Pick<T, K> & Partial<Omit<T, K>>> {
  return fc.record(model, { requiredKeys: [...requiredKeys], noNullPrototype: true }) as fc.Arbitrary<
    Pick<T, K> & Partial<Omit<T, K>>
  >
}

const all = <T>(model: { [P in keyof T]: fc.Arbitrary<T[P]> }): fc.Arbitrary<T> =>
  fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>

const just = fc.constant

export const ref: fc.Arbitrary<AttemptRef> = all({ agentId: id, taskId: id, attemptId: id, epoch: count })
const capacity = all({ free: small, running: small, queued: small })
const cursor: fc.Arbitrary<LaneCursor> = record(
  {
    lane: small,
    storeId: id,
    incarnation: count,
    sent: count,
    received: count,
    hash: id,
    acked: count,
    peer: all({ storeId: id, incarnation: count }),
  },
  ['lane', 'storeId', 'incarnation', 'sent', 'received', 'hash'],
) as fc.Arbitrary<LaneCursor>

const card: fc.Arbitrary<NodeCard> = record(
  {
    description: text(200),
    labels: facts,
    capabilities: fc.array(id, { maxLength: 5 }),
    offers: fc.array(all({ name: id, mode: fc.constantFrom('rw' as const, 'ro' as const) }), { maxLength: 5 }),
    maxAgents: small,
    allows: all({
      allTools: fc.constantFrom<boolean | 'listed'>(true, false, 'listed'),
      monitors: fc.boolean(),
      repos: fc.array(id, { maxLength: 3 }),
    }),
    credential: fc.constantFrom('none', 'api_key', 'oauth_token', 'auth_token', 'env'),
    version: id,
    claudeVersion: id,
    lostAfterMs: count,
    os: id,
    arch: id,
    unavailable: all({ reason, message: prose }),
  },
  ['description', 'labels', 'capabilities', 'offers', 'maxAgents', 'allows', 'credential', 'version', 'os', 'arch'],
) as fc.Arbitrary<NodeCard>

const control: fc.Arbitrary<ControlMessage> = fc.oneof(
  all({ type: just('heartbeat' as const) }),
  all({ type: just('ack' as const), lane: small, received: count }),
  all({ type: just('credit' as const), lane: small, bytes: count }),
  all({ type: just('probe' as const), nonce: count }),
  all({ type: just('probe_reply' as const), nonce: count }),
  record({ type: just('capacity' as const), capacity, card }, ['type', 'capacity']),
  record({ type: just('progress' as const), ref, atMs: instant, note: prose }, ['type', 'ref', 'atMs']),
  all({ type: just('caught_up' as const), heads: fc.array(all({ lane: small, no: count }), { maxLength: 4 }) }),
) as fc.Arbitrary<ControlMessage>

export const frame: fc.Arbitrary<SessionFrame> = fc.oneof(
  all({
    type: just('open' as const),
    hubId: id,
    epoch: count,
    sessionNo: count,
    lanes: fc.array(cursor, { maxLength: 4 }),
    fences: fc.array(all({ attemptId: id, epoch: count }), { maxLength: 6 }),
  }),
  all({
    type: just('accept' as const),
    lanes: fc.array(cursor, { maxLength: 4 }),
    bootId: id,
    inventory: fc.array(
      all({
        attemptId: id,
        state: fc.constantFrom('claimed' as const, 'running' as const, 'ended' as const),
        keeper: fc.constantFrom('live' as const, 'ended' as const, 'none' as const),
      }),
      { maxLength: 6 },
    ),
    card,
    capacity,
  }),
  all({
    type: just('refused' as const),
    code: fc.constantFrom('stale_epoch' as const, 'stale_session' as const, 'protocol_violation' as const),
    message: prose,
    highestEpochSeen: count,
  }),
  all({ type: just('control' as const), message: control }),
  record(
    {
      type: just('part' as const),
      lane: small,
      no: count,
      index: small,
      isLast: fc.boolean(),
      bytes: bytes(0, 500),
      digest: bytes(8, 8),
    },
    ['type', 'lane', 'no', 'index', 'isLast', 'bytes'],
  ),
) as fc.Arbitrary<SessionFrame>

const result: fc.Arbitrary<AttemptResult> = record(
  {
    outcome: fc.constantFrom('completed', 'failed', 'stopped', 'rejected'),
    reason,
    text: text(2000),
    hint: prose,
    denied: fc.array(all({ tool: id, input: prose }), { maxLength: 4 }),
    usage: all({ inputTokens: count, outputTokens: count, costUsd: amount, durationMs: count }),
    messages: fc.array(
      all({ messageId: id, state: fc.constantFrom('taken' as const, 'not_taken' as const, 'interrupted' as const) }),
      { maxLength: 4 },
    ),
    sessionId: id,
    exitProof: fc.constantFrom('cgroup_empty', 'pidns_gone', 'scan_clean'),
    stopCommandId: id,
    details: facts,
  },
  ['outcome', 'text', 'denied', 'usage', 'messages', 'details'],
) as fc.Arbitrary<AttemptResult>

const event = record(
  { seq: count, atMs: instant, turn: small, type: fc.constantFrom(...eventTypes), text: text(100), fields: facts },
  ['seq', 'atMs', 'turn', 'type', 'fields'],
)
const request = record(
  { brief: text(2000), model: id, effort: id, maxBudgetUsd: amount, maxTurns: count, deadlineMs: count },
  ['brief'],
)

export const work: fc.Arbitrary<WorkMessage> = fc.oneof(
  record(
    {
      type: just('claim' as const),
      commandId: id,
      ref,
      turn: small,
      request,
      title: prose,
      dir: prose,
      lostAfterMs: count,
      resumeSessionId: id,
    },
    ['type', 'commandId', 'ref', 'turn', 'request', 'lostAfterMs'],
  ),
  all({ type: just('steer' as const), commandId: id, ref, messageId: id, text: text(500) }),
  record({ type: just('stop' as const), commandId: id, ref, reason: prose }, ['type', 'commandId', 'ref']),
  all({ type: just('collected' as const), commandId: id, ref, resultHash: id }),
  all({ type: just('recall' as const), commandId: id, ref }),
  all({ type: just('void' as const) }),
  all({
    type: just('inventory' as const),
    attempts: fc.array(
      record(
        {
          ref,
          turn: small,
          state: fc.constantFrom('claimed' as const, 'running' as const, 'ended' as const),
          title: prose,
          claimedAtMs: instant,
        },
        ['ref', 'turn', 'state', 'claimedAtMs'],
      ),
      { maxLength: 4 },
    ),
    orphans: fc.array(id, { maxLength: 4 }),
    isLast: fc.boolean(),
  }),
  all({ type: just('quarantined' as const), no: count, kind: id, message: prose }),
  all({ type: just('claimed' as const), ref }),
  all({ type: just('declined' as const), ref, reason, message: prose, isPermanent: fc.boolean() }),
  all({ type: just('started' as const), ref, sessionId: id }),
  all({
    type: just('message' as const),
    ref,
    messageId: id,
    state: fc.constantFrom('accepted' as const, 'taken' as const, 'not_taken' as const, 'interrupted' as const),
  }),
  all({
    type: just('task_events' as const),
    ref,
    events: fc.array(event, { maxLength: limits.taskEventsPerMessageMax }),
  }),
  all({ type: just('ended' as const), ref, result }),
  all({ type: just('keeper_gone' as const), ref, message: prose }),
  all({ type: just('receipt' as const), ref, receipt: all({ receiptId: id, envelope: bytes(1, 400) }) }),
  record({ type: just('unsupported' as const), kind: id, commandId: id }, ['type', 'kind']),
) as fc.Arbitrary<WorkMessage>

const attemptWord = record(
  { agentId: id, taskId: id, attemptId: id, epoch: count, isOpen: fc.boolean(), textHash: id, receiptId: id },
  ['agentId', 'taskId', 'attemptId', 'epoch', 'isOpen'],
)

export const account: fc.Arbitrary<AccountMessage> = fc.oneof(
  record({ type: fc.constant('ask' as const), after: id }, ['type']),
  all({
    type: fc.constant('page' as const),
    attempts: fc.array(attemptWord, { maxLength: 4 }),
    isLast: fc.boolean(),
  }),
  all({
    type: fc.constant('refused' as const),
    code: fc.constantFrom(...(Object.keys(errorCodes) as ErrorCode[])),
    message: prose,
  }),
)
