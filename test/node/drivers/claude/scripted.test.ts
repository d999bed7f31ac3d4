import { access, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NfltrError } from '../../../../src/core/errors.ts'
import { processesWithMark } from '../../../../src/platform/process-table.ts'
import { installFakeClaude } from '../../../fixtures/fake-claude/install.ts'
import { type Bench, bench, follow, isEvent, randomMessageId } from './drive.ts'

/** The driver over real keepers, with the scripted agent as its program: everything but the model is real. */
const scenario = {
  turns: {
    hello: [{ say: 'Hello.' }],
    again: [{ say: 'Again.' }],
    write: [{ tool: 'Write', input: { file_path: 'made.txt', content: 'made' } }, { say: 'Made.' }],
    fetch: [{ tool: 'WebFetch', input: { url: 'http://127.0.0.1:9/', prompt: 'x' } }, { say: 'Not fetched.' }],
    wait: [{ say: 'Waiting.' }, { wait_for_message: true }, { say: 'Went on.' }],
    held: [{ say: 'Begun.' }, { wait_for_file: 'go' }, { say: 'Went on.' }],
    hang: [{ say: 'Thinking.' }, { hang: true }],
    crash: [{ say: 'Half' }, { crash: { exit: 9 } }],
    form: [{ request: { subtype: 'elicitation', message: 'Who?' }, as: 'answer' }, { say: 'Declined.' }],
    refused: [{ http_error: { status: 401, message: 'no', times: 9 } }],
    '\n/clear': [{ say: 'As words.' }],
  },
}

let home: string
let agent: Bench
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'nfltr-claude-'))
  agent = await bench({ program: await installFakeClaude(home, scenario) })
})
afterEach(async () => {
  await agent[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

describe('a turn', () => {
  test('ends completed, with its process gone', async () => {
    const turn = await agent.start(agent.launch({ brief: 'hello' }))

    const result = await turn.ended

    expect(result).toMatchObject({ outcome: 'completed', text: 'Hello.', sessionId: turn.launch.sessionId })
    expect(processesWithMark(turn.launch.attemptId)).toEqual([])
  })

  test('goes on in the same session and workspace', async () => {
    const first = agent.launch({ brief: 'hello' })
    await (await agent.start(first)).ended

    const next = agent.launch({ brief: 'again' }, { isContinuation: true, sessionId: first.sessionId })
    const result = await (await agent.start(next)).ended

    expect(result).toMatchObject({ outcome: 'completed', text: 'Again.', sessionId: first.sessionId })
  })

  test('edits its workspace, and what needs more is denied and named', async () => {
    const written = await (await agent.start(agent.launch({ brief: 'write' }))).ended
    const fetched = await (await agent.start(agent.launch({ brief: 'fetch' }))).ended

    expect(written.outcome).toBe('completed')
    expect(await readFile(join(agent.workspace, 'made.txt'), 'utf8')).toBe('made')
    expect(fetched).toMatchObject({ outcome: 'failed', reason: 'tools_not_allowed', text: 'Not fetched.' })
    expect(fetched.denied.map(({ tool }) => tool)).toEqual(['WebFetch'])
  })

  test('takes a message in while it runs', async () => {
    const turn = await agent.start(agent.launch({ brief: 'wait' }))
    await turn.saw(isEvent('text'))
    const messageId = randomMessageId()

    turn.feed({ type: 'steer', messageId, text: 'go on' })
    const result = await turn.ended

    expect(result).toMatchObject({ outcome: 'completed', text: 'Went on.', messages: [{ messageId, state: 'taken' }] })
  })

  test('is stopped by an interrupt, and its session can go on', async () => {
    const turn = await agent.start(agent.launch({ brief: 'hang' }))
    await turn.saw(isEvent('text'))

    turn.feed({ type: 'stop', commandId: 'cmd_1' })
    const stopped = await turn.ended
    const next = agent.launch({ brief: 'again' }, { isContinuation: true, sessionId: turn.launch.sessionId })

    expect(stopped).toMatchObject({ outcome: 'stopped', text: 'Thinking.', stopCommandId: 'cmd_1' })
    expect(turn.records.map((each) => each.type)).not.toContain('stopping')
    expect(await (await agent.start(next)).ended).toMatchObject({ outcome: 'completed', text: 'Again.' })
  })

  test('is stopped before it did anything', async () => {
    const turn = await agent.start(agent.launch({ brief: 'hang' }))
    await turn.saw((effect) => effect.type === 'write')

    turn.feed({ type: 'stop', commandId: 'cmd_1' })

    expect(await turn.ended).toMatchObject({ outcome: 'stopped', stopCommandId: 'cmd_1' })
  })

  test('ends at its deadline', async () => {
    const turn = await agent.start(agent.launch({ brief: 'hang', deadlineMs: 1500 }))

    expect(await turn.ended).toMatchObject({ outcome: 'failed', reason: 'deadline' })
  })

  test('that crashes is failed, with what it had said', async () => {
    const turn = await agent.start(agent.launch({ brief: 'crash' }))

    expect(await turn.ended).toMatchObject({ outcome: 'failed', reason: 'crashed', text: 'Half' })
  })

  test('answers a form with a no, so that nothing waits', async () => {
    const turn = await agent.start(agent.launch({ brief: 'form' }))

    expect(await turn.ended).toMatchObject({ outcome: 'completed', text: 'Declined.' })
  })

  test('is ended when the credential is refused, without minutes of tries', async () => {
    const turn = await agent.start(agent.launch({ brief: 'refused' }))

    expect(await turn.ended).toMatchObject({ outcome: 'failed', reason: 'auth_lost' })
  })

  test('reads a brief that begins with a slash as words', async () => {
    const turn = await agent.start(agent.launch({ brief: '/clear' }))

    expect(await turn.ended).toMatchObject({ outcome: 'completed', text: 'As words.' })
  })

  test('whose session is unknown here says so', async () => {
    const turn = await agent.start(agent.launch({ brief: 'hello' }, { isContinuation: true }))

    expect(await turn.ended).toMatchObject({ outcome: 'failed', reason: 'session_missing' })
  })
})

describe('a node that dies in the middle of a turn', () => {
  test('finds all of it again: one brief, one result', async () => {
    const launch = agent.launch({ brief: 'held' })
    const turn = await agent.start(launch)
    await turn.saw(isEvent('text'))
    await turn.abandon()

    const again = follow(agent.driver, await agent.keepers.adopt(launch.attemptId), launch)
    await again.saw(isEvent('text'))
    await writeFile(join(agent.workspace, 'go'), '')
    const result = await again.ended

    expect(result).toMatchObject({ outcome: 'completed', text: 'Went on.' })
    expect(again.records.filter((each) => each.type === 'stdin_intent')).toHaveLength(1)
    expect(again.effects.filter((effect) => effect.type === 'ended')).toHaveLength(1)
  })

  test('and whose keeper died with it still tells what was there', async () => {
    const launch = agent.launch({ brief: 'hang' })
    const turn = await agent.start(launch)
    await turn.saw(isEvent('text'))
    const header = turn.records[0]
    await turn.abandon()
    if (header?.type === 'header') process.kill(header.keeperPid, 'SIGKILL')

    const again = follow(agent.driver, await agent.keepers.adopt(launch.attemptId), launch)
    await expect(again.ended).rejects.toMatchObject({ code: 'keeper_gone' })
    again.feed({ type: 'keeper_gone', proof: await agent.keepers.sweep(launch.attemptId) })

    const end = again.effects.find((effect) => effect.type === 'ended')
    expect(end?.type === 'ended' && end.result).toMatchObject({
      outcome: 'failed',
      reason: 'crashed',
      text: 'Thinking.',
    })
    expect(processesWithMark(launch.attemptId)).toEqual([])
  })
})

describe('what is prepared for a turn', () => {
  test('hands the words of the project over from a file that nobody else can change', async () => {
    await writeFile(join(agent.workspace, 'CLAUDE.md'), 'Words of the project.')

    const { args } = await agent.driver.prepare(agent.launch({ brief: 'hello' }))

    const file = args[args.indexOf('--append-system-prompt-file') + 1] ?? ''
    expect(file.startsWith(agent.workspace)).toBe(false)
    expect(await readFile(file, 'utf8')).toBe('Words of the project.')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
  })

  test('takes no link for the words of the project: it could lead anywhere', async () => {
    await writeFile(join(agent.root, 'secret'), 'secret')
    await symlink(join(agent.root, 'secret'), join(agent.workspace, 'CLAUDE.md'))

    const { args } = await agent.driver.prepare(agent.launch({ brief: 'hello' }))

    expect(args).not.toContain('--append-system-prompt-file')
  })

  test('forgets the words of a project that has none any more', async () => {
    await writeFile(join(agent.workspace, 'CLAUDE.md'), 'old')
    const before = await agent.driver.prepare(agent.launch({ brief: 'hello' }))
    const file = before.args[before.args.indexOf('--append-system-prompt-file') + 1] ?? ''
    await rm(join(agent.workspace, 'CLAUDE.md'))

    const { args } = await agent.driver.prepare(agent.launch({ brief: 'hello' }))

    expect(args).not.toContain('--append-system-prompt-file')
    await expect(access(file)).rejects.toThrow()
  })

  test('is refused, with the reason, where the program, the credential or readable words are missing', async () => {
    const reasonOf = async (options: Partial<Parameters<typeof bench>[0]>): Promise<unknown> => {
      await using other = await bench({ program: join(home, 'claude'), ...options })
      if (options.program === undefined && options.credential === undefined) {
        await writeFile(join(other.workspace, 'CLAUDE.md'), Buffer.from([0xff, 0xfe]))
      }
      const failure: unknown = await other.driver
        .prepare(other.launch({ brief: 'hello' }))
        .catch((error: unknown) => error)
      return failure instanceof NfltrError ? [failure.code, failure.details['reason']] : failure
    }

    expect(await reasonOf({ program: '/no/claude' })).toEqual(['launch_failed', 'claude_missing'])
    expect(await reasonOf({ credential: async () => undefined })).toEqual(['launch_failed', 'not_logged_in'])
    expect(await reasonOf({})).toEqual(['launch_failed', 'workspace'])
  })
})

describe('the probe', () => {
  const signal = new AbortController().signal

  test('names the program and its version', async () => {
    expect(await agent.driver.probe({ signal })).toEqual({
      type: 'present',
      program: join(home, 'claude'),
      version: '2.1.332',
    })
  })

  test('says why there is none: not found, too old, something else', async () => {
    const folder = join(home, 'others')
    await mkdir(folder)
    const programs = [
      ['old', 'echo "2.1.99 (Claude Code)"'],
      ['new', 'echo "3.0.0 (Claude Code)"'],
      ['other', 'echo "something else"'],
    ] as const
    for (const [name, line] of programs) await writeFile(join(folder, name), `#!/bin/sh\n${line}\n`, { mode: 0o755 })
    const probe = async (program: string): Promise<string> => {
      await using other = await bench({ program })
      const found = await other.driver.probe({ signal })
      return found.type === 'present' ? found.version : found.reason
    }

    expect(await probe(join(folder, 'old'))).toBe('claude_too_old')
    expect(await probe(join(folder, 'new'))).toBe('3.0.0')
    expect(await probe(join(folder, 'other'))).toBe('claude_missing')
    expect(await probe('no-such-claude')).toBe('claude_missing')
  })
})
