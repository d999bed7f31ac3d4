import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { NodeMessage } from '../../src/core/messages.ts'
import { createKeepers } from '../../src/keeper/client.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { processesWithMark } from '../../src/platform/process-table.ts'
import { nodeFacts } from '../contracts/memory-link.ts'
import { installFakeClaude } from '../fixtures/fake-claude/install.ts'
import { removeFolder } from '../support/remove-folder.ts'
import { IpcLink, type IpcMessage } from './ipc-link.ts'
import { claim, ref, TestHub } from './world.ts'

const childFile = fileURLToPath(new URL('./node-child.ts', import.meta.url))

/** The scripted agent's part: everything else, from the store to the process tree, is real. */
const scenario = {
  turns: {
    hello: [{ say: 'Hello.' }],
    talk: [{ say: 'One.' }, { wait_for_message: true }, { say: 'Two.' }],
    file: [{ say: 'Begun.' }, { wait_for_file: 'go' }, { say: 'Went on.' }, { crash: { exit: 9 } }],
    hang: [{ say: 'Thinking.' }, { hang: true }],
    again: [{ say: 'Again.' }],
  },
}

// Sweeps look through the whole machine: the attempts are this process's alone.
const [a1, a2] = [`a1-${process.pid}`, `a2-${process.pid}`]

const messageId = `msg_${'a'.repeat(32)}`

let home = ''
let program = ''
let hub: TestHub
let child: ChildProcess | undefined
let links = 0

beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'nn-')))
  program = await installFakeClaude(join(home, 'bin'), scenario)
  hub = await TestHub.open(undefined, systemClock())
})

afterEach(async () => {
  await kill()
  const keepers = keepersOf()
  for (const { attemptId } of await keepers.find()) await keepers.sweep(attemptId)
  await removeFolder(home)
})

function keepersOf() {
  return createKeepers({ attemptsDir: join(home, 'node/attempts'), runDir: join(home, 'run'), clock: systemClock() })
}

/** Starts the node's process and opens the hub's session to it. */
async function start(): Promise<void> {
  const started = fork(childFile, [home, program], { serialization: 'advanced', stdio: 'inherit' })
  child = started
  const post = (message: IpcMessage): void => {
    if (started.connected) started.send(message)
  }
  links += 1
  const link = new IpcLink({ id: links, peer: nodeFacts, post })
  const ready = Promise.withResolvers<void>()
  started.on('message', (message: IpcMessage) => {
    if (message.type === 'ready') ready.resolve()
    else if (message.type !== 'open') link.take(message)
  })
  started.on('exit', (code) => {
    link.take({ type: 'close', link: links })
    ready.reject(new Error(`the node ended with ${code}`))
  })
  await ready.promise
  post({ type: 'open', link: links })
  await hub.attach(link)
}

/** SIGKILL: nothing of the node gets to say goodbye. */
async function kill(): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

function texts(): readonly string[] {
  return hub
    .of('task_events')
    .flatMap(({ events }) => events.flatMap(({ type, text }) => (type === 'text' ? [text ?? ''] : [])))
}

const isText = (text: string) => (message: NodeMessage) =>
  message.type === 'task_events' && message.events.some((event) => event.type === 'text' && event.text === text)
const isType = (type: NodeMessage['type']) => (message: NodeMessage) => message.type === type

function expectGapless(): void {
  expect(hub.seqs()).toEqual(hub.seqs().map((_, index) => index + 1))
}

// Each starts several processes, one after the other, on a machine that does more than this.
describe('a node process', { timeout: 120_000 }, () => {
  test('runs a turn of the agent program to its receipt, and leaves nothing running', async () => {
    await start()

    await hub.send(claim(a1, { request: { brief: 'hello' } }))
    await hub.heard(isType('receipt'))

    expect(hub.of('ended')).toMatchObject([{ result: { outcome: 'completed', text: 'Hello.' } }])
    expect(processesWithMark(`att_${a1}`)).toEqual([])
    expectGapless()
  })

  test('killed with -9 in the middle of a turn takes it over, and its result comes once', async () => {
    await start()
    await hub.send(claim(a1, { request: { brief: 'talk' } }))
    await hub.heard(isText('One.'))

    await kill()
    await start()
    await hub.send({ type: 'steer', commandId: 'steer-1', ref: ref(a1), messageId, text: 'go on' })
    await hub.heard(isType('receipt'))

    expect(hub.of('ended')).toMatchObject([
      { result: { outcome: 'completed', text: 'Two.', messages: [{ messageId, state: 'taken' }] } },
    ])
    expect(texts()).toEqual(['One.', 'Two.'])
    expect(hub.of('started')).toHaveLength(1)
    expect(processesWithMark(`att_${a1}`)).toEqual([])
    expectGapless()
  })

  test('that was not there when a turn ended finds how', async () => {
    await start()
    await hub.send(claim(a1, { request: { brief: 'file' } }))
    await hub.heard(isText('Begun.'))

    await kill()
    await writeFile(join(await workspace(), 'go'), '')
    const keeper = await keepersOf().adopt(`att_${a1}`)
    for await (const record of keeper.records({ fromOffset: 0, signal: AbortSignal.any([]) })) {
      if (record.type === 'exit') break
    }
    await keeper[Symbol.asyncDispose]()
    await start()
    await hub.heard(isType('receipt'))

    expect(hub.of('ended')).toMatchObject([
      { result: { outcome: 'failed', reason: 'crashed', text: 'Begun.Went on.', details: { exit_code: '9' } } },
    ])
    expect(texts()).toEqual(['Begun.', 'Went on.'])
    expectGapless()
  })

  test('killed right after a stop was given carries it out', async () => {
    await start()
    await hub.send(claim(a1, { request: { brief: 'hang' } }))
    await hub.heard(isText('Thinking.'))

    await hub.send({ type: 'stop', commandId: 'stop-1', ref: ref(a1) })
    await hub.session.caughtUp()
    await kill()
    await start()
    await hub.heard(isType('receipt'))

    expect(hub.of('ended')).toMatchObject([{ result: { outcome: 'stopped', stopCommandId: 'stop-1' } }])
    expect(processesWithMark(`att_${a1}`)).toEqual([])
  })

  test('goes on with an agent in its session and its folder after it was killed', async () => {
    await start()
    await hub.send(claim(a1, { request: { brief: 'hello' } }))
    await hub.heard(isType('receipt'))
    const sessionId = hub.of('started')[0]?.sessionId ?? ''
    await writeFile(join(await workspace(), 'kept'), 'x')

    await kill()
    await start()
    await hub.send(claim(a2, { turn: 2, resumeSessionId: sessionId, request: { brief: 'again' } }))
    await hub.heard((message) => message.type === 'receipt' && message.ref.attemptId === `att_${a2}`)

    expect(hub.of('ended')[1]).toMatchObject({ result: { outcome: 'completed', text: 'Again.' } })
    expect(hub.of('started')[1]?.sessionId).toBe(sessionId)
    expect(await readFile(join(await workspace(), 'kept'), 'utf8')).toBe('x')
    expectGapless()
  })

  test('says that a keeper is gone that was killed with it', async () => {
    await start()
    await hub.send(claim(a1, { request: { brief: 'hang' } }))
    await hub.heard(isText('Thinking.'))
    const keeper = await keepersOf().adopt(`att_${a1}`)
    let keeperPid = 0
    for await (const record of keeper.records({ fromOffset: 0, signal: AbortSignal.any([]) })) {
      if (record.type === 'header') keeperPid = record.keeperPid
      if (record.type === 'launched') break
    }
    await keeper[Symbol.asyncDispose]()

    await kill()
    process.kill(keeperPid, 'SIGKILL')
    await start()
    await hub.heard(isType('keeper_gone'))

    expect(hub.of('ended')).toEqual([])
    expect(processesWithMark(`att_${a1}`)).toEqual([])
  })
})

async function workspace(): Promise<string> {
  const [origin = ''] = await readdir(join(home, 'node/agents/agt_1'))
  return join(home, 'node/agents/agt_1', origin, 'workspace')
}
