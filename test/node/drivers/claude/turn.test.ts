import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { limits } from '../../../../src/core/limits.ts'
import { messageUuid } from '../../../../src/node/drivers/claude/input-lines.ts'
import { exitBoundMs } from '../../../../src/node/drivers/claude/turn.ts'
import type { TurnInput } from '../../../../src/ports/agent-driver.ts'
import { acts, fold, launchOf, load, play, record, stdout } from './recording.ts'

describe('a recorded turn of the real program', () => {
  test('that worked is completed with its text, its usage and its session', () => {
    const { result, effects } = play('success')

    expect(result).toMatchObject({
      outcome: 'completed',
      text: 'All done.',
      usage: { inputTokens: 20, outputTokens: 10, costUsd: 0.00021 },
      denied: [],
      messages: [],
      exitProof: 'scan_clean',
    })
    expect(acts(effects)).toEqual(['write message', 'session_ready', 'wake unsettled', 'ended'])
    const log = effects.flatMap((effect) => (effect.type === 'event' ? [effect.event.type] : []))
    expect(log).toEqual(['state', 'text', 'tool_call', 'tool_result', 'text', 'usage'])
  })

  test('gives the cost of this turn alone, though the program counts the whole session', () => {
    expect(play('resume').result.usage.costUsd).toBe(0.000105)
  })

  const failures = [
    ['max-turns', 'max_turns'],
    ['budget', 'budget_exhausted'],
    ['auth-refused', 'auth_lost'],
    ['auth-retries', 'auth_lost'],
    ['api-error', 'model_error'],
    ['model-unknown', 'model_error'],
    ['not-logged-in', 'not_logged_in'],
    ['resume-missing', 'session_missing'],
    ['sandbox-missing', 'sandbox_unavailable'],
    ['session-in-use', 'crashed'],
    ['root-refused', 'crashed'],
    ['sigkill', 'crashed'],
    ['sigterm', 'crashed'],
  ] as const
  test.each(failures)('%s is failed with the reason %s', (name, reason) => {
    const { result } = play(name)

    expect(result).toMatchObject({ outcome: 'failed', reason, exitProof: 'scan_clean' })
  })

  test('that says it succeeded, and nothing else, is failed as empty', () => {
    const { launch, inputs } = load('success')
    const silent = inputs.map((input) => {
      if (input.type !== 'record' || input.record.type !== 'stdout' || !isLineWith(input, '"type":"result"'))
        return input
      return stdout({ ...JSON.parse(new TextDecoder().decode(input.record.line)), result: '' })
    })

    expect(fold(launch, silent).result).toMatchObject({ outcome: 'failed', reason: 'empty_result' })
  })

  test('that had to try again is completed', () => {
    const { result, effects } = play('overloaded-twice')

    expect(result.outcome).toBe('completed')
    expect(effects.filter((effect) => effect.type === 'event' && effect.event.type === 'model_retry')).toHaveLength(2)
  })

  test('is ended at the first refusal of the credential', () => {
    const { launch, inputs } = load('auth-retries')
    const until = inputs.findIndex((input) => input.type === 'record' && isLineWith(input, 'api_retry'))

    const { effects } = fold(launch, inputs.slice(0, until + 1))

    expect(acts(effects).filter((act) => act === 'stop_tree')).toEqual(['stop_tree'])
    expect(acts(play('auth-retries').effects).filter((act) => act === 'stop_tree')).toEqual(['stop_tree'])
  })

  test('with any denial is failed, its text whole and each denied call named once', () => {
    const { result } = play('denied')

    expect(result).toMatchObject({ outcome: 'failed', reason: 'tools_not_allowed', text: 'end' })
    expect(result.hint).toContain('--allow-all-tools')
    expect(result.denied.map(({ tool }) => tool)).toEqual(['Read', 'Write', 'WebFetch', 'Bash'])
    expect(JSON.parse(result.denied[0]?.input ?? '')).toEqual({ file_path: '/agent/outside/secret.txt' })
  })

  test('that says why it failed on standard error keeps that', () => {
    expect(play('session-in-use').result.details['stderr']).toContain('is already in use')
    expect(play('root-refused').result.details['stderr']).toContain('cannot be used with root/sudo privileges')
  })

  test.each(['asks-permission', 'asks-form'])('%s: every request is answered, with a no', (name) => {
    const { launch, inputs } = load(name)
    const asked = inputs.filter((input) => isLineWith(input, '"type":"control_request"')).length

    const { effects } = fold(launch, inputs)

    const answers = effects.flatMap((effect) =>
      effect.type === 'answer' ? [new TextDecoder().decode(effect.bytes)] : [],
    )
    expect(asked).toBeGreaterThan(0)
    expect(answers).toHaveLength(asked)
    for (const answer of answers) expect(answer).toMatch(/"behavior":"deny"|"action":"decline"|"subtype":"error"/)
  })

  test('has no lines that would not be understood', () => {
    expect(play('partial-messages').result.outcome).toBe('completed')
  })
})

describe('a message for the running turn', () => {
  test('taken in during a tool is taken, and the turn has one result', () => {
    const { result, effects } = play('steer-during-tool')

    expect(result).toMatchObject({ outcome: 'completed', text: 'after steer' })
    expect(result.messages.map(({ state }) => state)).toEqual(['taken'])
    expect(acts(effects)).toEqual([
      'write message',
      'session_ready',
      'write message',
      'message taken',
      'close_input',
      'wake exit',
      'ended',
    ])
  })

  test('that came too late for its run begins another one: the last text counts, and the usage of both', () => {
    const { result, effects } = play('steer-during-text')

    expect(result).toMatchObject({ outcome: 'completed', text: 'reply to second' })
    expect(result.messages.map(({ state }) => state)).toEqual(['taken', 'taken'])
    expect(result.usage.inputTokens).toBe(20)
    expect(acts(effects).filter((act) => act === 'close_input')).toHaveLength(1)
    expect(acts(effects).indexOf('close_input')).toBeGreaterThan(acts(effects).lastIndexOf('message taken'))
  })

  test('that the program never took up is reported as not taken after a bound, and withdrawn', () => {
    const { launch, inputs } = load('steer-during-text')
    const firstResult = inputs.findIndex((input) => isLineWith(input, '"type":"result"'))
    const begun = inputs.slice(0, firstResult + 1)
    const { effects } = fold(launch, begun)
    const wake = effects.find((effect) => effect.type === 'wake_after')
    if (wake?.type !== 'wake_after') throw new Error('no bound was set')

    const after = fold(launch, [
      ...begun,
      { type: 'woke', token: wake.token },
      record({ type: 'exit', code: 0, proof: 'cgroup_empty' }),
    ])

    expect(wake.delayMs).toBe(limits.messageBoundAfterResultMs)
    expect(acts(after.effects).slice(-4)).toEqual(['write interrupt', 'close_input', 'wake exit', 'ended'])
    expect(after.result).toMatchObject({ outcome: 'completed' })
    expect(after.result?.messages.map(({ state }) => state)).toEqual(['not_taken', 'not_taken'])
  })

  test('that was started when the program died is reported as interrupted', () => {
    const { launch, inputs } = load('steer-during-tool')
    const started = inputs.findLastIndex((input) => isLineWith(input, '"state":"started"'))

    const { result } = fold(launch, [
      ...inputs.slice(0, started + 1),
      record({ type: 'exit', signal: 'SIGKILL', proof: 'scan_clean' }),
    ])

    expect(result).toMatchObject({ outcome: 'failed', reason: 'crashed' })
    expect(result?.messages.map(({ state }) => state)).toEqual(['interrupted'])
  })

  test('is asked for once more after a restart, and not where the journal shows it', () => {
    const { launch, inputs } = load('steer-during-tool')
    const steer = inputs.find((input) => input.type === 'steer')
    if (steer?.type !== 'steer') throw new Error('no steer')
    const intent = inputs.findLastIndex((input) => input.type === 'record' && input.record.type === 'stdin_intent')
    const journal = inputs.filter((input) => input.type === 'record')

    const lost = fold(launch, [...inputs.slice(0, intent - 1), steer, steer])
    const known = fold(launch, [...journal.slice(0, intent), steer])

    const writesOf = (effects: typeof lost.effects): number =>
      effects.filter((effect) => effect.type === 'write' && effect.messageId === steer.messageId).length
    expect(writesOf(lost.effects)).toBe(2)
    expect(writesOf(known.effects)).toBe(0)
  })

  test('after the input was closed is not taken', () => {
    const { launch, inputs } = load('steer-during-tool')
    const late: TurnInput = { type: 'steer', messageId: 'msg_ffffffffffff4fff8fffffffffffffff', text: 'late' }

    const { effects } = fold(launch, [...inputs.slice(0, -1), late])

    expect(acts(effects).at(-1)).toBe('message not_taken')
  })

  test('goes under the same uuid whenever it is written', () => {
    expect(messageUuid('msg_0123456789abcdef0123456789abcdef')).toBe('01234567-89ab-4def-8123-456789abcdef')
    expect(messageUuid('msg_short')).toBeUndefined()
  })
})

describe('a stop', () => {
  test('interrupts, and is answered with the evidence of what was done', () => {
    const { result, effects } = play('interrupt-tool')

    expect(result).toMatchObject({ outcome: 'stopped', stopCommandId: 'stop_1' })
    expect(acts(effects).slice(0, 6)).toEqual([
      'write message',
      'session_ready',
      'write interrupt',
      'wake interrupt',
      'close_input',
      'wake exit',
    ])
  })

  test('keeps the text that had come so far', () => {
    const { result } = play('interrupt-text')

    expect(result.outcome).toBe('stopped')
    expect(result.text.length).toBeGreaterThan(0)
  })

  test('wins over a message that waits: it is withdrawn, and never begun', () => {
    const { result } = play('interrupt-cancel-queued')

    expect(result.outcome).toBe('stopped')
    expect(result.messages.map(({ state }) => state)).toEqual(['not_taken'])
  })

  test('that is not answered ends the tree after its bound', () => {
    const { launch, inputs } = load('interrupt-tool')
    const stop = inputs.findIndex((input) => input.type === 'stop')

    const { effects } = fold(launch, [...inputs.slice(0, stop + 1), { type: 'woke', token: 'interrupt' }])

    expect(acts(effects).slice(-3)).toEqual(['write interrupt', 'wake interrupt', 'stop_tree'])
    const wake = effects.find((effect) => effect.type === 'wake_after')
    expect(wake?.type === 'wake_after' && wake.delayMs).toBe(limits.interruptBoundMs)
    const kill = effects.find((effect) => effect.type === 'stop_tree')
    const killedAfterMs = limits.interruptBoundMs + (kill?.type === 'stop_tree' ? kill.graceMs : Number.NaN)
    expect(killedAfterMs).toBeLessThanOrEqual(limits.stopAnswerMs - 1_500)
  })

  test('that a starting program answered too early is pressed again when it begins to work', () => {
    const { launch, inputs } = load('interrupt-tool')
    const init = inputs.findIndex((input) => isLineWith(input, '"state":"queued"'))
    const answer = { type: 'control_response', response: { subtype: 'success', request_id: 'interrupt_stop_1' } }

    const { effects } = fold(launch, [
      ...inputs.slice(0, init),
      { type: 'stop', commandId: 'stop_1' },
      stdout(answer),
      ...inputs.slice(init, init + 2),
    ])

    expect(acts(effects).filter((act) => act === 'write interrupt')).toHaveLength(2)
    expect(acts(effects)).not.toContain('close_input')
  })

  test('after the result changes nothing but that it is answered', () => {
    const { launch, inputs } = load('steer-during-tool')

    const { result } = fold(launch, [...inputs.slice(0, -1), { type: 'stop', commandId: 'late' }, ...inputs.slice(-1)])

    expect(result).toMatchObject({ outcome: 'completed', text: 'after steer', stopCommandId: 'late' })
  })
})

describe('the end of a turn', () => {
  const ended = (inputs: readonly TurnInput[]): ReturnType<typeof fold>['result'] =>
    fold(load('steer-during-tool').launch, inputs).result
  const { inputs } = load('steer-during-tool')
  const half = inputs.slice(0, 8)
  const whole = inputs.slice(0, -1)

  test('without a result is never a success, whatever the exit code', () => {
    expect(ended([...half, record({ type: 'exit', code: 0, proof: 'scan_clean' })])).toMatchObject({
      outcome: 'failed',
      reason: 'crashed',
    })
  })

  test('with a result is a success, whatever the exit code and whoever lost the keeper', () => {
    const ends: readonly TurnInput[] = [
      record({ type: 'exit', code: 1, proof: 'scan_clean' }),
      { type: 'keeper_gone', proof: 'scan_clean' },
      { type: 'journal_damaged', proof: 'scan_clean' },
    ]
    for (const end of ends) expect(ended([...whole, end])).toMatchObject({ outcome: 'completed', text: 'after steer' })
  })

  test('at the deadline, by damage or with the keeper says so', () => {
    const exit = record({ type: 'exit', code: 143, proof: 'scan_clean' })
    expect(ended([...half, record({ type: 'stopping', by: 'deadline' }), exit])?.reason).toBe('deadline')
    expect(ended([...half, { type: 'journal_damaged', proof: 'scan_clean' }])?.reason).toBe('journal_damaged')
    expect(ended([...half, { type: 'keeper_gone', proof: 'cgroup_empty' }])).toMatchObject({
      reason: 'crashed',
      exitProof: 'cgroup_empty',
      details: { end: 'keeper_gone' },
    })
  })

  test('in the middle of a line is a truncated stream', () => {
    const exit = record({ type: 'exit', signal: 'SIGKILL', proof: 'scan_clean' })
    const cut = record({ type: 'stdout_cut', head: new Uint8Array(), lineBytes: 99 })
    expect(ended([...half, stdout('{"type":"resu'), exit])?.reason).toBe('truncated_stream')
    expect(ended([...half, cut, exit])?.reason).toBe('truncated_stream')
  })

  test('of a program that never started is rejected', () => {
    const inputs = [
      record({ type: 'launch_failed', message: 'spawn ENOENT' }),
      record({ type: 'exit', proof: 'scan_clean' }),
    ]
    expect(ended(inputs)).toMatchObject({ outcome: 'rejected', reason: 'claude_missing' })
  })

  test('of a program that does not exit when its input is closed comes after a bound', () => {
    const { effects } = fold(load('steer-during-tool').launch, [...whole, { type: 'woke', token: 'exit' }])

    const wake = effects.findLast((effect) => effect.type === 'wake_after')
    expect(wake?.type === 'wake_after' && wake.delayMs).toBe(exitBoundMs)
    expect(acts(effects).at(-1)).toBe('stop_tree')
  })

  test('of a message that an earlier process had taken in comes after a bound, as empty', () => {
    const launch = launchOf()
    const uuid = messageUuid(launch.firstMessageId)
    const begun = [
      record({ type: 'launched', pid: 1, start: '1' }),
      record({ type: 'stdin_intent', messageId: launch.firstMessageId, bytes: new Uint8Array() }),
      stdout({ type: 'command_lifecycle', command_uuid: uuid, state: 'completed' }),
    ]
    const wake = fold(launch, begun).effects.find((effect) => effect.type === 'wake_after')
    if (wake?.type !== 'wake_after') throw new Error('no bound was set')

    const { result, effects } = fold(launch, [
      ...begun,
      { type: 'woke', token: wake.token },
      record({ type: 'exit', code: 0, proof: 'scan_clean' }),
    ])

    expect(acts(effects)).toContain('close_input')
    expect(result).toMatchObject({ outcome: 'failed', reason: 'empty_result' })
  })
})

describe('a program that loaded what the launch did not name', () => {
  const init = { type: 'system', subtype: 'init', session_id: 's', permissionMode: 'acceptEdits', mcp_servers: [] }
  const capabilities = ['msg_lifecycle_v1', 'interrupt_cancel_queued_v1']
  const exit = record({ type: 'exit', code: 143, proof: 'scan_clean' })
  const failing = (line: unknown, allowAllTools: boolean): ReturnType<typeof fold> =>
    fold(launchOf({ allowAllTools }), [stdout(line), exit])

  test('is ended at once', () => {
    const unclean = [
      { ...init, capabilities, mcp_servers: [{ name: 'theirs' }] },
      { ...init, capabilities, permissionMode: 'bypassPermissions' },
    ]
    for (const line of unclean) {
      const { effects, result } = failing(line, false)
      expect(acts(effects)[0]).toBe('stop_tree')
      expect(result).toMatchObject({ outcome: 'failed', reason: 'unclean_config' })
    }
    expect(failing({ ...init, capabilities, permissionMode: 'bypassPermissions' }, true).result?.reason).toBe('crashed')
  })

  test('or lacks what the driver relies on is ended at once, too', () => {
    expect(failing({ ...init, capabilities: ['msg_lifecycle_v1'] }, true).result).toMatchObject({
      outcome: 'failed',
      reason: 'claude_too_old',
    })
  })
})

// Whatever a program writes, in whatever order: a driver that throws would take a node's other turns with it.
describe('any order of inputs', () => {
  const names = [
    'steer-during-tool',
    'steer-during-text',
    'interrupt-cancel-queued',
    'denied',
    'asks-form',
    'auth-retries',
  ]
  const pool = names.flatMap((name) => load(name).inputs)
  const anyInput: fc.Arbitrary<TurnInput> = fc.oneof(
    fc.constantFrom(...pool),
    fc.json({ maxDepth: 3 }).map((json) => stdout(json)),
    fc.constantFrom<TurnInput>(
      { type: 'woke', token: 'exit' },
      { type: 'woke', token: 'unsettled_1_1' },
      { type: 'stop', commandId: 'stop_2' },
      { type: 'keeper_gone', proof: 'scan_clean' },
    ),
  )

  test('is folded without a throw, ends at most once, and nothing comes after the end', () => {
    fc.assert(
      fc.property(fc.array(anyInput, { maxLength: 60 }), (inputs) => {
        const { effects } = fold(launchOf(), inputs)

        const end = effects.findIndex((effect) => effect.type === 'ended')
        expect(end === -1 || end === effects.length - 1).toBe(true)
        expect(acts(effects).filter((act) => act === 'close_input').length).toBeLessThanOrEqual(1)
      }),
      { numRuns: 500 },
    )
  })
})

function isLineWith(input: TurnInput, text: string): boolean {
  if (input.type !== 'record' || input.record.type !== 'stdout') return false
  return new TextDecoder().decode(input.record.line).includes(text)
}
