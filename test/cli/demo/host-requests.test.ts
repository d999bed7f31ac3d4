import { describe, expect, test } from 'vitest'
import { controlRequest, type Line, type Session, userMessage } from '../../fixtures/scenarios/session.ts'
import { agentMachine, contents, resultOf } from './agent.ts'

const touch = { turns: { go: [{ tool: 'Bash', input: { command: 'python3 -c 1' } }, { say: 'Done.' }] } }
const ask = ['--permission-mode', 'default', '--permission-prompt-tool', 'stdio']

async function asked(session: Session): Promise<Line> {
  return await session.waitFor('a request of the agent', (line) => line['type'] === 'control_request')
}

function answer(request: Line, response: object): object {
  return { type: 'control_response', response: { subtype: 'success', request_id: request['request_id'], response } }
}

describe('what the scripted agent asks its host', () => {
  test('a permission, and uses the input that was allowed', async () => {
    const machine = await agentMachine(touch)
    const session = machine.open(ask)
    session.send(userMessage('go'))
    const request = await asked(session)

    session.send(answer(request, { behavior: 'allow', updatedInput: { command: 'echo changed' } }))
    const result = await resultOf(session)

    expect(request['request']).toMatchObject({ subtype: 'can_use_tool', tool_name: 'Bash' })
    expect(contents(session)).toEqual(['changed', 'Done.'])
    expect(result['permission_denials']).toEqual([])
  })

  test('a permission that is denied is listed in the result, and the turn goes on', async () => {
    const machine = await agentMachine(touch)
    const session = machine.open(ask)
    session.send(userMessage('go'))

    session.send(answer(await asked(session), { behavior: 'deny', message: 'not here' }))
    const result = await resultOf(session)

    expect(contents(session)).toEqual(['not here', 'Done.'])
    expect(result).toMatchObject({ subtype: 'success', permission_denials: [{ tool_name: 'Bash' }] })
  })

  test('a denial that interrupts ends the turn', async () => {
    const machine = await agentMachine(touch)
    const session = machine.open(ask)
    session.send(userMessage('go'))

    session.send(answer(await asked(session), { behavior: 'deny', message: 'x', interrupt: true }))

    expect(await resultOf(session)).toMatchObject({ is_error: true, terminal_reason: 'aborted_tools' })
  })

  test('a stop takes the open question back', async () => {
    const machine = await agentMachine(touch)
    const session = machine.open(ask)
    session.send(userMessage('go'))
    const request = await asked(session)

    session.send(controlRequest('stop', { subtype: 'interrupt' }))
    await resultOf(session)

    const after = session.lines.slice(session.lines.indexOf(request) + 1).map((line) => line['type'])
    expect(after.slice(0, 2)).toEqual(['control_cancel_request', 'control_response'])
  })

  test('the end of standard input denies, and the turn goes on', async () => {
    const machine = await agentMachine(touch)
    const session = machine.open(ask)
    session.send(userMessage('go'))
    await asked(session)

    session.end()
    await session.exited

    expect(contents(session)[0]).toContain('Tool permission stream closed')
  })

  test('anything a scenario asks, and the answer is there for later steps', async () => {
    const turn = [
      { request: { subtype: 'elicitation', message: 'which?' }, as: 'choice' },
      { say: { $ref: 'choice.content.c' } },
    ]
    const machine = await agentMachine({ turns: { go: turn } })
    const session = machine.open()
    session.send(userMessage('go'))

    session.send(answer(await asked(session), { action: 'accept', content: { c: 'the left one' } }))

    expect(await resultOf(session)).toMatchObject({ result: 'the left one' })
  })

  test('lines of any kind stand where the scenario put them', async () => {
    const machine = await agentMachine({ turns: { go: [{ emit: { type: 'novel', n: 1 } }, { say: 'x' }] } })
    const session = machine.open()
    session.send(userMessage('go'))
    await resultOf(session)

    expect(session.lines.map((line) => line['type'])).toEqual(['system', 'novel', 'user', 'assistant', 'result'])
  })
})
