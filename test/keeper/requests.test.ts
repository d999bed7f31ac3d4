import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { hear, isLine, type KeeperHome, keeperHome, lines, only, shell, text } from './support.ts'

let home: KeeperHome
beforeEach(async () => {
  home = await keeperHome()
})
afterEach(() => home[Symbol.asyncDispose]())

/** A command that asks for something and shows the answer. */
function asking(request: unknown): string {
  const line = JSON.stringify({ type: 'control_request', request_id: 'r1', request })
  return `echo '${line}'; read -r answer; echo "$answer"; echo asked`
}

async function answerTo(request: unknown): Promise<unknown> {
  await using keeper = await home.keepers.launch(shell(asking(request), { answerBoundMs: 30 }))
  const heard = await hear(keeper)
  expect(only(heard, 'control_answer').map(({ requestId, by }) => [requestId, by])).toEqual([['r1', 'keeper']])
  return JSON.parse(lines(heard)[1] ?? '')
}

describe('a request that no node answers', () => {
  test('for a tool is denied', async () => {
    expect(await answerTo({ subtype: 'can_use_tool', tool_name: 'Bash', input: {} })).toEqual({
      type: 'control_response',
      response: {
        subtype: 'success',
        request_id: 'r1',
        response: { behavior: 'deny', message: 'Nobody answered in time.' },
      },
    })
  })

  test('for a form is declined', async () => {
    expect(await answerTo({ subtype: 'elicitation', message: 'who?' })).toEqual({
      type: 'control_response',
      response: { subtype: 'success', request_id: 'r1', response: { action: 'decline' } },
    })
  })

  test('of any other kind gets an error', async () => {
    expect(await answerTo({ subtype: 'something_new' })).toEqual({
      type: 'control_response',
      response: { subtype: 'error', request_id: 'r1', error: 'Nobody answered in time.' },
    })
  })
})

describe('a request that the node answers', () => {
  test('gets that answer once, and the keeper adds none', async () => {
    const script = `${asking({ subtype: 'can_use_tool' })}; read -r more || echo nothing more`
    await using keeper = await home.keepers.launch(shell(script, { answerBoundMs: 60_000 }))
    await hear(keeper, { until: (record) => record.type === 'stdout' })

    await Promise.all([
      keeper.answer({ requestId: 'r1', bytes: text('{"node":1}\n') }),
      keeper.answer({ requestId: 'r1', bytes: text('{"node":2}\n') }),
    ])
    await keeper.answer({ requestId: 'never asked', bytes: text('{"node":3}\n') })
    await hear(keeper, { until: isLine('asked') })
    await keeper.closeInput()
    const heard = await hear(keeper)

    expect(lines(heard).slice(1)).toEqual(['{"node":1}', 'asked', 'nothing more'])
    expect(only(heard, 'control_answer').map((record) => record.by)).toEqual(['node'])
  })

  test('and that the command takes back is not answered at all', async () => {
    const cancel = '{"type":"control_cancel_request","request_id":"r1"}'
    const ask = '{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool"}}'
    // The second request is answered by the keeper; had the first still been open, it would have been answered before.
    const other = ask.replace('r1', 'r2')
    // In one write: a command that is kept waiting between two would take the first one back too late.
    await using keeper = await home.keepers.launch(
      shell(`printf '%s\\n' '${ask}' '${cancel}' '${other}'; read -r a; echo done`, { answerBoundMs: 50 }),
    )

    const heard = await hear(keeper)

    expect(only(heard, 'control_answer').map((record) => record.requestId)).toEqual(['r2'])
  })
})
