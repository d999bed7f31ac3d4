import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createClaudeDriver } from '../../src/node/drivers/claude/driver.ts'
import { systemPrograms } from '../../src/platform/programs.ts'
import type { TurnLaunch } from '../../src/ports/agent-driver.ts'
import { type ScriptedModel, startModel } from '../fixtures/model/server.ts'
import { controlRequest, type Session, startSession, userMessage } from '../fixtures/scenarios/session.ts'
import { everySetting, type HostileRepository, hostileRepository, projectWords } from './hostile-repository.ts'

/**
 * Hazards M1–M4, M11, M12 and M18 (docs/internals/rules.md, R22 and R30) with the real program: what a repository that
 * an agent works in could do with the node's key before anybody asks, and what a message sent twice does. Each hazard is
 * first shown to exist under the launch that is not used, so that the tests of the one that is used can fail.
 */

const key = 'sk-ant-the-node-key'

let model: ScriptedModel
let root: string
let workspace: string
let sessions: Session[]

beforeAll(async () => {
  model = await startModel()
})

afterAll(async () => {
  await model.close()
})

beforeEach(async () => {
  sessions = []
  root = await mkdtemp(join(tmpdir(), 'nfltr-hazard-'))
  workspace = join(root, 'workspace')
  for (const folder of ['home', 'private', 'tmp', 'workspace']) await mkdir(join(root, folder), { mode: 0o700 })
  model.script(run('ours'), [{ text: 'Done.', repeat: true }])
  model.script(run('theirs'), [{ text: 'Stolen.', repeat: true }])
})

afterEach(async () => {
  for (const session of sessions) session.signal('SIGKILL')
  await rm(root, { recursive: true, force: true })
})

/** A base URL of this test alone. */
function run(name: string): string {
  return `${root}/${name}`
}

/** A repository in the workspace; what is not in `settings` it does not try. */
async function hostile(settings: readonly string[] = everySetting): Promise<HostileRepository> {
  return await hostileRepository(workspace, { marks: root, thief: model.runUrl(run('theirs')), settings })
}

/** Starts the program as the node's driver would; `change` is what a careless driver would do. */
async function open(
  more: Partial<TurnLaunch> = {},
  change: (args: readonly string[]) => readonly string[] = same,
): Promise<Session> {
  const driver = createClaudeDriver({
    programs: systemPrograms(),
    program: inject('claudeBinary'),
    own: { PATH: process.env['PATH'] ?? '', HOME: join(root, 'home'), LANG: 'C.UTF-8' },
    passEnv: [],
    isRoot: process.getuid?.() === 0,
    credential: () => Promise.resolve({ kind: 'api_key', secret: key, baseUrl: model.runUrl(run('ours')) }),
  })
  const launch = await driver.prepare({
    attemptId: 'att_1',
    agentId: 'agt_1',
    taskId: 'tsk_1',
    turn: 1,
    machineName: 'vm1',
    sessionId: randomUUID(),
    isContinuation: false,
    workspace,
    privateDir: join(root, 'private'),
    tmpDir: join(root, 'tmp'),
    request: { brief: 'hello' },
    firstMessageId: `msg_${'0'.repeat(32)}`,
    allowAllTools: false,
    ...more,
  })
  const { program: command, cwd, env, secretEnv } = launch
  const session = startSession({ command, args: change(launch.args), cwd, env: { ...env, ...secretEnv } })
  sessions.push(session)
  return session
}

const same = (args: readonly string[]): readonly string[] => args

/** The launch that is not used: settings of the project are read. */
const careless = (args: readonly string[]): readonly string[] =>
  args.map((arg, index) => (args[index - 1] === '--setting-sources' ? 'project' : arg))

async function oneTurn(session: Session, uuid: string = randomUUID()): Promise<void> {
  session.send(userMessage('hello', uuid))
  await session.waitFor('a result', (line) => line['type'] === 'result')
  session.end()
  await session.exited
}

async function probe(session: Session): Promise<void> {
  for (const subtype of ['initialize', 'get_settings']) {
    session.send(controlRequest(subtype, { subtype }))
    await session.waitFor(subtype, (line) => JSON.stringify(line).includes(`"request_id":"${subtype}"`))
  }
  session.end()
  await session.exited
}

/** Where the node's key went, by run. */
function keysSeen(name: string): readonly unknown[] {
  return [...new Set(model.requests(run(name)).map((request) => request.headers['x-api-key']))]
}

describe('settings of a repository', () => {
  test('M1: the careless launch sends the key where the repository says', async () => {
    await hostile(['env'])

    await oneTurn(await open({}, careless))

    expect(keysSeen('theirs')).toEqual([key])
  })

  test('M2, M3: the careless launch runs a helper of the repository, for a probe alone', async () => {
    const repository = await hostile(['apiKeyHelper'])

    await probe(await open({}, careless))

    expect(repository.ran()).toContain('apiKeyHelper')
    expect(model.requests(run('ours'))).toEqual([])
  })

  test.each([
    { allowAllTools: false, rights: 'by default' },
    { allowAllTools: true, rights: 'with all tools' },
  ])('M4: the launch of the node keeps key and machine to itself, $rights', async ({ allowAllTools }) => {
    const repository = await hostile()

    const session = await open({ allowAllTools })
    await oneTurn(session)

    expect(keysSeen('theirs')).toEqual([])
    expect(keysSeen('ours')).toEqual([key])
    expect(repository.ran()).toEqual([])
    const init = session.lines.find((line) => line['subtype'] === 'init')
    expect(init).toMatchObject({ mcp_servers: [] })
  })

  test('M4: nor does a probe', async () => {
    const repository = await hostile()

    const session = await open()
    await probe(session)

    expect(repository.ran()).toEqual([])
    expect(model.requests(run('theirs'))).toEqual([])
    const settings = session.lines.find((line) => JSON.stringify(line).includes('"request_id":"get_settings"'))
    expect(settings).toMatchObject({ response: { response: { sources: [{ source: 'flagSettings' }] } } })
  })

  test('M18: the text of CLAUDE.md reaches the model all the same', async () => {
    const repository = await hostile()

    await oneTurn(await open())

    expect(JSON.stringify(model.requests(run('ours')))).toContain(projectWords)
    expect(repository.ran()).toEqual([])
  })
})

describe('a message sent twice', () => {
  test('M11: in one process it is one turn, one lifecycle, one result', async () => {
    const uuid = randomUUID()
    const session = await open()
    session.send(userMessage('hello', uuid))
    await session.waitFor('the end', (line) => line['state'] === 'completed')

    session.send(userMessage('hello', uuid))
    session.end()
    await session.exited

    const ofMessage = session.lines.filter((line) => line['command_uuid'] === uuid).map((line) => line['state'])
    expect(ofMessage).toEqual(['queued', 'started', 'completed'])
    expect(session.lines.filter((line) => line['type'] === 'result')).toHaveLength(1)
    expect(session.lines.filter((line) => line['isReplay'] === true)).toHaveLength(2)
    expect(model.requests(run('ours'))).toHaveLength(1)
  })

  test('M12: after --resume it is completed at once, without a result', async () => {
    const [id, uuid] = [randomUUID(), randomUUID()]
    await oneTurn(await open({ sessionId: id }), uuid)

    const again = await open({ sessionId: id, isContinuation: true })
    again.send(userMessage('hello', uuid))
    again.end()
    const exit = await again.exited

    const kinds = again.lines.map((line) => line['isReplay'] ?? line['state'] ?? line['subtype'])
    expect(kinds.filter((kind) => kind !== 'ui_invalidate')).toEqual([true, 'completed'])
    expect(exit.code).toBe(0)
    expect(model.requests(run('ours'))).toHaveLength(1)
  })
})
