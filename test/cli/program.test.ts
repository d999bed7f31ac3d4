import { CommanderError } from 'commander'
import { describe, expect, test } from 'vitest'
import { printable } from '../../src/cli/printable.ts'
import { buildProgram, usageError } from '../../src/cli/program.ts'
import { table } from '../../src/cli/table.ts'
import type { World } from '../../src/cli/world.ts'
import { NfltrError } from '../../src/core/errors.ts'

/** What the parser makes of a command line: the refusal, or undefined when it was taken. */
async function refusalOf(args: readonly string[]) {
  const taken = async () => undefined
  const everything = new Proxy({}, { get: () => taken })
  const world = new Proxy(
    { version: '0' },
    { get: (target, name) => (name === 'version' ? target.version : everything) },
  )
  try {
    await buildProgram(world as unknown as World).parseAsync([...args], { from: 'user' })
    return undefined
  } catch (thrown) {
    if (thrown instanceof CommanderError) return usageError(thrown)
    if (thrown instanceof NfltrError) return thrown
    throw thrown
  }
}

describe('the command line', () => {
  test('refuses an unknown flag by name and suggests the nearest', async () => {
    expect(await refusalOf(['node', 'join', '--max-agent', '2'])).toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('--max-agent'),
      hint: expect.stringContaining('--max-agents'),
    })
  })

  test.each([
    ['mesh', 'invite', '--ttl', '200000000d'],
    ['mesh', 'invite', '--ttl', '0s'],
    ['node', 'join', '--lost-after', '99999999999d'],
    ['agent', 'wait', '--timeout', '10'],
  ])('refuses a span that nobody means: %s %s %s %s', async (...args) => {
    expect(await refusalOf(args)).toMatchObject({ code: 'invalid_argument', details: { argument: args[2] } })
  })

  test.each([
    [['mesh', 'revoke', ''], 'name'],
    [['agent', 'show', ''], 'id'],
    [['agent', 'wait', ''], 'id'],
    [['mesh', 'create', '--name', ''], '--name'],
    [['--home', '', 'node', 'status'], '--home'],
  ])('refuses an empty word: %j', async (args, argument) => {
    expect(await refusalOf(args)).toMatchObject({ code: 'invalid_argument', details: { argument } })
  })

  test('refuses a command of which only the first word was given, where a program reads the answer', async () => {
    const half = new CommanderError(2, 'commander.help', '(outputHelp)')

    expect(usageError(half)).toBeUndefined()
    expect(usageError(half, { isJson: true })).toMatchObject({ code: 'invalid_argument' })
    expect(usageError(new CommanderError(0, 'commander.help', '(outputHelp)'), { isJson: true })).toBeUndefined()
  })

  test('refuses an unknown command by name and suggests the nearest', async () => {
    expect(await refusalOf(['mesh', 'memebrs'])).toMatchObject({
      message: expect.stringContaining('memebrs'),
      hint: expect.stringContaining('members'),
    })
  })

  test.each([
    ['node', 'join', '--max-agents', '0'],
    ['node', 'join', '--max-agents', '65'],
    ['node', 'join', '--max-agents', '1e1'],
    ['node', 'join', '--label', 'novalue'],
    ['node', 'join', '--label', '=x'],
    ['node', 'join', '--offer', 'data'],
    ['node', 'join', '--name', 'Upper'],
    ['mesh', 'invite', '--ttl', '15'],
    ['mesh', 'invite', '--ttl', '-1m'],
    ['mesh', 'invite', '--role', 'king'],
    ['mesh', 'create', 'extra'],
    ['agent', 'spawn', '--brief-file', 'x', '--max-budget-usd', '0'],
    ['agent', 'spawn', '--brief-file', 'x', '--timeout-ms', '-1'],
    ['agent', 'spawn'],
    ['agent', 'wait', '--timeout', 'soon'],
    ['agent', 'wait', 'agt_1', ''],
    ['agent', 'show', ''],
    ['mcp', '--toolset', 'node'],
  ])('refuses %s %s %s %s', async (...args) => {
    expect(await refusalOf(args)).toMatchObject({ code: 'invalid_argument' })
  })

  test.each(['mesh relay', 'monitor list', 'orch x', 'node drain', 'hub watch', 'dashboard', 'completion bash'])(
    'does not know `%s`, which is not built',
    async (line) => {
      expect((await refusalOf(line.split(' ')))?.message).toMatch(/Unknown command|Too many arguments/)
    },
  )

  test('takes plurals of nouns', async () => {
    await expect(refusalOf(['meshes', 'bogus'])).resolves.toMatchObject({ message: expect.stringContaining('bogus') })
    await expect(refusalOf(['agents', 'bogus'])).resolves.toMatchObject({ message: expect.stringContaining('bogus') })
  })
})

describe('text for people', () => {
  test('loses escapes, controls, bidirectional overrides and tag characters, and keeps lines and letters', () => {
    const text = 'a\u001b[31mred\u0007\u0000\u009b b\u202Ec\u2066d\u{E0041}\ttab\nline ünï ✓ 中'

    expect(printable(text)).toBe('a[31mred bcd\ttab\nline ünï ✓ 中')
  })

  test('stands in columns as wide as their widest cell, without trailing blanks', () => {
    expect(
      table(
        ['name', 'state'],
        [
          ['a', 'online'],
          ['longer', ''],
        ],
      ),
    ).toBe('NAME    STATE\na       online\nlonger')
  })
})
