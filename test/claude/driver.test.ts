import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { type ScriptedModel, startModel } from '../fixtures/model/server.ts'
import { type Bench, bench, isEvent, randomMessageId } from '../node/drivers/claude/drive.ts'

/** The driver over real keepers with the real program: what the scripted agent cannot vouch for. */
const key = 'sk-ant-the-node-key'

let model: ScriptedModel
let agent: Bench
beforeEach(async () => {
  model = await startModel()
  const credential = async (): Promise<{ kind: 'api_key'; secret: string; baseUrl: string }> => ({
    kind: 'api_key',
    secret: key,
    baseUrl: model.runUrl('run'),
  })
  agent = await bench({ program: inject('claudeBinary'), credential })
})
afterEach(async () => {
  await agent[Symbol.asyncDispose]()
  await model.close()
})

/** Everything the model was sent, as text. */
function sent(): string {
  return JSON.stringify(
    model
      .requests('run')
      .filter((request) => request.main)
      .map((request) => request.body),
  )
}

describe('the real program under the driver', () => {
  test('hands the words of the project over, and keeps the key from the agent’s commands', async () => {
    await writeFile(join(agent.workspace, 'CLAUDE.md'), 'WORDS-OF-THE-PROJECT')
    const command = 'env | grep -c NFLTR_ATTEMPT; env | grep ANTHROPIC_API_KEY; echo end'
    model.script('run', [{ tools: [{ name: 'Bash', input: { command, description: 'look' } }] }, { text: 'Done.' }])

    const turn = await agent.start(agent.launch({ brief: 'hello' }, { allowAllTools: true }))
    const result = await turn.ended

    expect(result).toMatchObject({ outcome: 'completed', text: 'Done.' })
    expect(sent()).toContain('WORDS-OF-THE-PROJECT')
    expect(sent()).toContain('1\\nend')
    expect(sent()).not.toContain(key)
    expect(model.requests('run').every((request) => request.headers['x-api-key'] === key)).toBe(true)
  })

  // Without the switch the program reads any file its user can read, and asks nobody.
  test('reads no file because a message mentions it, be it a brief or a steer', async () => {
    const secret = join(agent.root, 'secret.txt')
    const inside = join(agent.workspace, 'go')
    await writeFile(secret, 'SECRET-WORDS')
    const wait = `until [ -e '${inside}' ]; do sleep 0.1; done`
    model.script('run', [
      { tools: [{ name: 'Bash', input: { command: wait, description: 'wait' } }] },
      { text: 'Done.' },
    ])
    const turn = await agent.start(agent.launch({ brief: `look at @${secret}` }, { allowAllTools: true }))
    await turn.saw(isEvent('tool_call'))
    turn.feed({ type: 'steer', messageId: randomMessageId(), text: `and at @../secret.txt or @"${secret}"` })
    await turn.saw(isEvent('message', { state: 'queued' }))
    await writeFile(inside, '')

    const result = await turn.ended

    expect(result.messages.map(({ state }) => state)).toEqual(['taken'])
    expect(sent()).toContain('and at @../secret.txt')
    expect(sent()).not.toContain('SECRET-WORDS')
    expect(readFileSync(secret, 'utf8')).toBe('SECRET-WORDS')
  })

  test('takes a brief that begins with a slash as words for the model', async () => {
    model.script('run', [{ text: 'Words.' }])

    const result = await (await agent.start(agent.launch({ brief: '/clear' }))).ended

    expect(result).toMatchObject({ outcome: 'completed', text: 'Words.' })
  })

  test.each([
    ['before it was launched', undefined],
    ['when it has the message', 'message'],
    ['at work', 'tool_call'],
  ] as const)('is stopped %s', async (_, moment) => {
    const hang = { name: 'Bash', input: { command: 'tail -f /dev/null', description: 'hang' } }
    model.script('run', [{ text: 'Hanging.', tools: [hang] }])
    const turn = await agent.start(agent.launch({ brief: 'hello' }, { allowAllTools: true }))
    if (moment !== undefined) await turn.saw(isEvent(moment))

    turn.feed({ type: 'stop', commandId: 'cmd_1' })

    expect(await turn.ended).toMatchObject({ outcome: 'stopped', stopCommandId: 'cmd_1' })
    expect(turn.records.map((each) => each.type)).not.toContain('stopping')
  })

  test('counts the cost and the budget of one turn, not of the session', async () => {
    model.script('run', [{ text: 'One.', usage: { input_tokens: 100_000, output_tokens: 1000 }, repeat: true }])
    const request = { brief: 'hello', model: 'claude-sonnet-4-5' }
    const first = agent.launch(request)
    const one = await (await agent.start(first)).ended
    const continued = { isContinuation: true, sessionId: first.sessionId }

    const two = await (await agent.start(agent.launch({ ...request, maxBudgetUsd: 0.5 }, continued))).ended
    const three = await (await agent.start(agent.launch({ ...request, maxBudgetUsd: 0.2 }, continued))).ended

    expect([one, two, three].map(({ usage }) => usage.costUsd.toFixed(3))).toEqual(['0.315', '0.315', '0.315'])
    expect([one, two, three].map(({ outcome, reason }) => reason ?? outcome)).toEqual([
      'completed',
      'completed',
      'budget_exhausted',
    ])
  })
})
