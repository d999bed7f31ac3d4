import { describe, expect, test } from 'vitest'
import type { NodeMessage } from '../../src/core/messages.ts'
import type { AttemptResult } from '../../src/core/model.ts'
import { step } from '../../src/core/node-attempt.ts'
import { type ClaimPolicy, hasIds, judgeClaim } from '../../src/core/node-attempt-claim.ts'
import { drivenInputs } from '../../src/core/node-attempt-commands.ts'
import type {
  ClaimMessage,
  NodeAttempt,
  NodeAttemptEffect,
  NodeAttemptEvent,
} from '../../src/core/node-attempt-state.ts'
import { emptySlots, takeSlot } from '../../src/core/slots.ts'
import { claimEvent, claimMessage, completed, events, ref } from './node-attempt-events.ts'

/** Runs events from the beginning; throws when a step made the attempt unknown. */
function lived(...list: readonly NodeAttemptEvent[]): NodeAttempt {
  let state: NodeAttempt | undefined
  for (const event of list) state = step(state, event).state
  if (state === undefined) throw new Error('the attempt is unknown')
  return state
}

function effects(state: NodeAttempt | undefined, event: NodeAttemptEvent): readonly NodeAttemptEffect[] {
  return step(state, event).effects
}

function sent(list: readonly NodeAttemptEffect[]): readonly NodeMessage['type'][] {
  return list.flatMap((effect) => (effect.type === 'send' ? [effect.message.type] : []))
}

function types(list: readonly NodeAttemptEffect[]): readonly string[] {
  return list.map((effect) => effect.type)
}

const running = (): NodeAttempt => lived(claimEvent(), events.prepared, events.launched)
const ended = (): NodeAttempt => lived(claimEvent(), events.prepared, events.launched, events.ended)
const collected = (): NodeAttempt =>
  lived(claimEvent(), events.prepared, events.launched, events.ended, events.collected)
const settled = (): NodeAttempt =>
  lived(claimEvent(), events.prepared, events.launched, events.ended, events.collected, events.receipt)

describe('a claim', () => {
  test('is on disk before its folders are made, and answered once they are', () => {
    const first = step(undefined, claimEvent())

    expect(types(first.effects)).toEqual(['persist', 'take_slot', 'prepare'])
    expect(types(effects(first.state, events.prepared))).toEqual(['persist', 'send', 'launch'])
    expect(sent(effects(first.state, events.prepared))).toEqual(['claimed'])
  })

  test('that is declined takes no slot, and may be made again under another command', () => {
    const declined = step(
      undefined,
      claimEvent({ decline: { reason: 'declined', message: 'full', isPermanent: false } }),
    )

    expect(types(declined.effects)).toEqual(['persist', 'send'])
    expect(sent(effects(declined.state, claimEvent()))).toEqual(['declined'])
    expect(types(effects(declined.state, claimEvent({}, { commandId: 'again' })))).toEqual([
      'persist',
      'take_slot',
      'prepare',
    ])
  })

  test('below the fence is void, whether the session or a command raised it', () => {
    expect(step(undefined, claimEvent({ fence: 2 }))).toEqual({ state: undefined, effects: [] })
    expect(effects(lived(claimEvent(), { type: 'fence', epoch: 3 }), claimEvent())).toEqual([])
  })

  test('of another hub changes nothing', () => {
    const state = running()

    expect(step(state, claimEvent({ hubId: 'hub_2' }, { commandId: 'other' }))).toEqual({ state, effects: [] })
  })

  test('that comes again is answered by what happened since', () => {
    expect(sent(effects(lived(claimEvent()), claimEvent()))).toEqual([])
    expect(sent(effects(running(), claimEvent()))).toEqual(['claimed'])
    expect(types(effects(ended(), claimEvent()))).toEqual(['send', 'send_kept_result'])
    expect(sent(effects(settled(), claimEvent()))).toEqual(['claimed', 'receipt'])
  })

  test('that could not be prepared is declined and gives its slot back', () => {
    const event: NodeAttemptEvent = {
      type: 'not_prepared',
      decline: { reason: 'dir_not_offered', message: 'no', isPermanent: true },
      atMs: 5,
    }
    const steered = lived(claimEvent(), events.steer)

    expect(sent(effects(steered, event))).toEqual(['declined'])
    expect(types(effects(steered, event))).toContain('release_slot')
    expect(effects(running(), event)).toEqual([])
  })
})

describe('a command', () => {
  test('below the fence is void, and one above raises it', () => {
    const fenced = lived(claimEvent(), events.prepared, events.launched, { type: 'fence', epoch: 5 })
    const low = { ...events.stop, message: { ...events.stop.message, ref: ref(4) } }
    const high = { ...events.stop, message: { ...events.stop.message, ref: ref(6) } }

    expect(step(fenced, low)).toEqual({ state: fenced, effects: [] })
    expect(step(fenced, high).state).toMatchObject({ fence: 6, ref: { epoch: 1 }, stop: { isDriven: true } })
    const endedFenced = step({ ...ended() }, high)
    expect(endedFenced).toMatchObject({ state: { fence: 6 }, effects: [{ type: 'persist' }] })
  })

  test('to an attempt that nobody knows is answered', () => {
    expect(sent(effects(undefined, events.steer))).toEqual(['message'])
    expect(types(effects(undefined, events.stop))).toEqual(['prove_absent'])
    expect(effects(undefined, events.collected)).toEqual([])
  })

  test('waits for the driver while the turn is launched or its journal is read again', () => {
    const launching = lived(claimEvent(), events.prepared, events.steer)
    const reading = lived(claimEvent(), events.prepared, events.launched, { ...events.steer, liveAt: undefined })

    expect(launching.steers[0]).toMatchObject({ isDriven: false })
    expect(types(effects(launching, events.launched))).toEqual(['persist', 'drive'])
    expect(types(effects(reading, events.resumed))).toEqual(['persist', 'drive'])
  })

  test('is kept with the place in the journal where the driver was given it', () => {
    const woke = { type: 'woke', token: 'bound', liveAt: 15 } as const
    const state = lived(claimEvent(), events.prepared, events.launched, woke, events.steer, events.stop)

    expect(drivenInputs(state)).toEqual([
      { at: 15, input: { type: 'woke', token: 'bound' } },
      { at: 20, input: { type: 'steer', messageId: 'm1', text: 'go on' } },
      { at: 20, input: { type: 'stop', commandId: 'stop-1' } },
    ])
    expect(types(effects(state, events.resumed))).toEqual(['persist'])
    expect(drivenInputs(lived(claimEvent(), events.prepared, events.steer))).toEqual([])
  })

  test('to stop wins over messages that wait', () => {
    const launching = lived(claimEvent(), events.prepared, events.steer, events.stop)

    expect(effects(launching, events.launched)).toMatchObject([
      { type: 'persist' },
      { type: 'drive', input: { type: 'stop' } },
    ])
    expect(
      effects(launching, { ...events.steer, message: { ...events.steer.message, messageId: 'm2' } }),
    ).toMatchObject([{ type: 'send', message: { type: 'message', state: 'not_taken' } }])
  })

  test('to stop an attempt that ended changes nothing', () => {
    const state = ended()

    expect(step(state, events.stop)).toEqual({ state, effects: [] })
  })

  test('to steer is refused past the number that one turn takes', () => {
    let state = running()
    for (let index = 0; index < 512; index += 1) {
      const message = { ...events.steer.message, messageId: `m${index}` }
      state = step(state, { ...events.steer, message }).state ?? state
    }

    const one = { ...events.steer, message: { ...events.steer.message, messageId: 'one too many' } }
    expect(effects(state, one)).toMatchObject([{ type: 'send', message: { state: 'not_taken' } }])
  })
})

describe('an end', () => {
  test('is recorded with its result, told and frees the slot', () => {
    expect(types(effects(running(), events.ended))).toEqual(['persist', 'keep_result', 'send', 'release_slot'])
  })

  test('is the first one, for ever', () => {
    const state = ended()

    expect(step(state, { ...events.ended, result: { ...completed, text: 'second' } })).toEqual({ state, effects: [] })
  })

  test('gives every message a fate', () => {
    const state = lived(claimEvent(), events.prepared, events.launched, events.steer)
    const [, kept] = effects(state, events.ended)

    expect(kept).toMatchObject({ type: 'keep_result', result: { messages: [{ messageId: 'm1', state: 'not_taken' }] } })
  })

  test('without a keeper is told as that, unless the journal held more than a crash', () => {
    const crash: AttemptResult = { ...completed, outcome: 'failed', reason: 'crashed' }
    const gone = { ...events.ended, keeperGone: 'gone' }

    expect(sent(effects(running(), { ...gone, result: crash }))).toEqual(['keeper_gone'])
    expect(sent(effects(running(), gone))).toEqual(['ended'])
    expect(sent(effects(running(), { ...events.ended, result: crash }))).toEqual(['ended'])
  })

  test('is settled by a receipt and kept seven days from then on', () => {
    const day = 24 * 3_600_000
    const state = settled()

    expect(types(effects(ended(), events.collected))).toEqual(['persist', 'make_receipt'])
    expect(types(effects(collected(), events.collected))).toEqual(['make_receipt'])
    expect(sent(effects(state, events.collected))).toEqual(['receipt'])
    expect(step(state, events.receipt)).toEqual({ state, effects: [] })
    expect(state).toMatchObject({ claim: undefined, steers: [] })
    expect(effects(state, { type: 'expired', atMs: 100 + 7 * day - 1 })).toEqual([])
    expect(types(effects(state, { type: 'expired', atMs: 100 + 7 * day }))).toEqual(['remove'])
  })

  test('leaves a tombstone that answers with the receipt, and goes after ninety days', () => {
    const tombstone = step(settled(), { type: 'removed', atMs: 0 })

    expect(types(tombstone.effects)).toEqual(['persist', 'drop_result'])
    expect(sent(effects(tombstone.state, claimEvent()))).toEqual(['receipt'])
    expect(step(tombstone.state, { type: 'expired', atMs: 90 * 24 * 3_600_000 })).toEqual({
      state: undefined,
      effects: [{ type: 'delete' }],
    })
  })

  test('that nobody collects stays', () => {
    expect(effects(ended(), { type: 'expired', atMs: Number.MAX_SAFE_INTEGER })).toEqual([])
  })
})

describe('whether a claim is taken in', () => {
  const card = {
    description: '',
    labels: {},
    capabilities: [],
    offers: [],
    maxAgents: 1,
    allows: { allTools: false, monitors: false, repos: [] },
    credential: 'api_key' as const,
    version: '1',
    os: 'linux',
    arch: 'x64',
  }
  const policy: ClaimPolicy = {
    card,
    slots: emptySlots(1),
    isDraining: false,
    knownSessionId: undefined,
    hubId: 'hub_1',
    maxAgentsPerHub: undefined,
    freeForHub: 1,
    outboxBytes: 0,
  }
  const full = takeSlot(emptySlots(1), 'x', { agentId: 'agt_x', hubId: 'hub_1', isRunning: true })
  const half = takeSlot(emptySlots(2), 'x', { agentId: 'agt_x', hubId: 'hub_1', isRunning: true })
  const busy = takeSlot(emptySlots(2), 'x', { agentId: ref().agentId, hubId: 'hub_1', isRunning: true })
  const withBrief = (brief: string): ClaimMessage => ({ ...claimMessage, request: { brief } })

  test('is yes where nothing stands against it', () => {
    expect(judgeClaim(claimMessage, policy)).toBeUndefined()
    expect(judgeClaim(withBrief('x'.repeat(1024 * 1024)), policy)).toBeUndefined()
    expect(judgeClaim(claimMessage, { ...policy, slots: half, maxAgentsPerHub: 1, hubId: 'hub_2' })).toBeUndefined()
    expect(judgeClaim({ ...claimMessage, resumeSessionId: 's' }, { ...policy, knownSessionId: 's' })).toBeUndefined()
  })

  test.each([
    ['an empty brief', withBrief(''), policy, 'declined', true],
    ['a NUL', withBrief('a\0b'), policy, 'declined', true],
    ['half a character', withBrief('\ud800'), policy, 'declined', true],
    ['a byte too many', withBrief('x'.repeat(1024 * 1024 + 1)), policy, 'declined', true],
    ['a byte too many in other letters', withBrief('语'.repeat(349_526)), policy, 'declined', true],
    ['an id that is a path', { ...claimMessage, ref: { ...ref(), agentId: '../x' } }, policy, 'declined', true],
    [
      'no agent program',
      claimMessage,
      { ...policy, card: { ...card, unavailable: { reason: 'claude_missing' as const, message: 'none' } } },
      'claude_missing',
      true,
    ],
    ['a session of elsewhere', { ...claimMessage, resumeSessionId: 's' }, policy, 'session_missing', true],
    ['a node about to stop', claimMessage, { ...policy, isDraining: true }, 'declined', false],
    ['an agent at work', claimMessage, { ...policy, slots: busy }, 'dir_busy', false],
    ['no free slot', claimMessage, { ...policy, slots: full }, 'declined', false],
    ['the slots of one hub taken', claimMessage, { ...policy, slots: half, maxAgentsPerHub: 1 }, 'declined', false],
    ['another hub in turn', claimMessage, { ...policy, freeForHub: 0 }, 'declined', false],
    ['no room for the result', claimMessage, { ...policy, outboxBytes: 1024 ** 3 - 1 }, 'outbox_full', false],
  ])('is no with %s', (_, claim, asked, reason, isPermanent) => {
    expect(judgeClaim(claim, asked)).toMatchObject({ reason, isPermanent })
  })

  test('looks at ids before they name anything', () => {
    expect(hasIds(ref())).toBe(true)
    expect(hasIds({ ...ref(), taskId: '' })).toBe(false)
    expect(hasIds({ ...ref(), attemptId: 'a/b' })).toBe(false)
  })
})

describe('a message that was written before the node’s store was put back', () => {
  const fate = { type: 'message_state', messageId: 'msg_forgotten', state: 'taken' } as const
  const steer = (messageId: string): NodeAttemptEvent => ({
    type: 'steer',
    message: { type: 'steer', commandId: 'c', ref: ref(), messageId, text: 'once' },
    liveAt: 9,
  })

  test('is known from its journal, and is not given to the program when it comes once more', () => {
    const told = step(running(), fate)
    const again = step(told.state, steer('msg_forgotten'))

    expect(told.effects).toContainEqual({
      type: 'send',
      message: { type: 'message', ref: ref(), messageId: 'msg_forgotten', state: 'taken' },
    })
    expect(again.effects).toEqual([
      { type: 'send', message: { type: 'message', ref: ref(), messageId: 'msg_forgotten', state: 'taken' } },
    ])
  })

  test('is never the brief', () => {
    const state = running()
    const messageId = state.place?.firstMessageId ?? ''

    expect(step(state, { ...fate, messageId })).toEqual({ state, effects: [] })
  })
})
