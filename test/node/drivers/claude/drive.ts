import { randomBytes, randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { NfltrError } from '../../../../src/core/errors.ts'
import type { JournalRecord } from '../../../../src/core/journal.ts'
import type { AttemptResult, TurnRequest } from '../../../../src/core/model.ts'
import { createKeepers } from '../../../../src/keeper/client.ts'
import { type ClaudeOptions, createClaudeDriver } from '../../../../src/node/drivers/claude/driver.ts'
import type { ClaudeTurn } from '../../../../src/node/drivers/claude/state.ts'
import { systemClock } from '../../../../src/platform/clock.ts'
import { systemPrograms } from '../../../../src/platform/programs.ts'
import type { AgentDriver, TurnEffect, TurnInput, TurnLaunch } from '../../../../src/ports/agent-driver.ts'
import type { Keeper, Keepers } from '../../../../src/ports/keepers.ts'
import { removeFolder } from '../../../support/remove-folder.ts'

/** One agent's folders, and a driver over real keepers: a node without its store and its hub. */
export interface Bench extends AsyncDisposable {
  readonly root: string
  readonly workspace: string
  readonly keepers: Keepers
  readonly driver: AgentDriver<ClaudeTurn>
  launch(request: TurnRequest, more?: Partial<TurnLaunch>): TurnLaunch
  start(launch: TurnLaunch): Promise<RunningTurn>
}

export interface RunningTurn {
  readonly launch: TurnLaunch
  readonly effects: readonly TurnEffect[]
  readonly records: readonly JournalRecord[]
  feed(input: TurnInput): void
  /** Resolves at the first effect that is accepted, also where it was before. */
  saw(accepts: (effect: TurnEffect) => boolean): Promise<void>
  /** Stops following, as a node does that is killed: keeper and program run on. */
  abandon(): Promise<void>
  readonly ended: Promise<AttemptResult>
}

export const randomMessageId = (): string => `msg_${randomBytes(16).toString('hex')}`

export async function bench(options: Partial<ClaudeOptions> & { readonly program: string }): Promise<Bench> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'nd-')))
  const workspace = join(root, 'work space')
  for (const folder of ['work space', 'private', 'tmp', 'home']) await mkdir(join(root, folder), { mode: 0o700 })
  const clock = systemClock()
  const keepers = createKeepers({ attemptsDir: join(root, 'node/attempts'), runDir: join(root, 'run'), clock })
  const driver = createClaudeDriver({
    programs: systemPrograms(),
    own: { PATH: process.env['PATH'] ?? '', HOME: join(root, 'home'), LANG: 'C.UTF-8' },
    passEnv: [],
    isRoot: process.getuid?.() === 0,
    credential: async () => ({ kind: 'api_key', secret: 'sk-ant-test', baseUrl: 'http://127.0.0.1:9' }),
    ...options,
  })
  let turns = 0
  return {
    root,
    workspace,
    keepers,
    driver,
    launch(request, more = {}) {
      turns += 1
      return {
        // Sweeps look through the whole machine: no two tests may share an attempt.
        attemptId: `att_${randomBytes(8).toString('hex')}`,
        agentId: 'agent_1',
        taskId: `task_${turns}`,
        turn: turns,
        machineName: 'vm1',
        sessionId: randomUUID(),
        isContinuation: false,
        workspace,
        privateDir: join(root, 'private'),
        tmpDir: join(root, 'tmp'),
        request,
        firstMessageId: randomMessageId(),
        allowAllTools: false,
        ...more,
      }
    },
    async start(launch) {
      const { secretEnv, ...prepared } = await driver.prepare(launch)
      const deadline = launch.request.deadlineMs === undefined ? {} : { deadlineMs: launch.request.deadlineMs }
      const keeper = await keepers.launch({
        ...prepared,
        ...deadline,
        secretEnv,
        attemptId: launch.attemptId,
        answerBoundMs: 60_000,
      })
      return follow(driver, keeper, launch)
    },
    async [Symbol.asyncDispose]() {
      for (const { attemptId } of await keepers.find()) await keepers.sweep(attemptId)
      await removeFolder(root)
    },
  }
}

/** Folds a keeper's journal from its beginning and carries the effects out; what was done before is done once (keeper). */
export function follow(driver: AgentDriver<ClaudeTurn>, keeper: Keeper, launch: TurnLaunch): RunningTurn {
  const effects: TurnEffect[] = []
  const records: JournalRecord[] = []
  const waiting: { readonly accepts: (effect: TurnEffect) => boolean; readonly resolve: () => void }[] = []
  const stopped = new AbortController()
  const timers = new Set<NodeJS.Timeout>()
  const { promise: ended, resolve: setEnded, reject: setFailed } = Promise.withResolvers<AttemptResult>()
  let state = driver.begin(launch)
  let queue: Promise<void> = Promise.resolve()

  function feed(input: TurnInput): void {
    const next = driver.step(state, input)
    state = next.state
    for (const effect of next.effects) {
      effects.push(effect)
      carryOut(effect)
      for (const { accepts, resolve } of waiting) if (accepts(effect)) resolve()
    }
  }

  function carryOut(effect: TurnEffect): void {
    if (effect.type === 'ended') setEnded(effect.result)
    else if (effect.type === 'wake_after') {
      timers.add(setTimeout(() => feed({ type: 'woke', token: effect.token }), effect.delayMs))
    } else if (effect.type === 'stop_tree') void ignoreGone(keeper.stop(effect))
    else queue = queue.then(() => ignoreGone(perform(keeper, effect)))
  }

  async function read(): Promise<void> {
    try {
      for await (const record of keeper.records({ fromOffset: 0, signal: stopped.signal })) {
        records.push(record)
        feed({ type: 'record', record })
      }
    } catch (error) {
      setFailed(error)
    }
    for (const timer of timers) clearTimeout(timer)
    if (!stopped.signal.aborted) await keeper[Symbol.asyncDispose]()
  }

  const reading = read()
  return {
    launch,
    effects,
    records,
    feed,
    saw: (accepts) =>
      effects.some(accepts) ? Promise.resolve() : new Promise((resolve) => waiting.push({ accepts, resolve })),
    async abandon() {
      stopped.abort()
      await reading
      await keeper[Symbol.asyncDispose]()
    },
    ended,
  }
}

async function perform(keeper: Keeper, effect: TurnEffect): Promise<void> {
  if (effect.type === 'write') await keeper.write(effect)
  else if (effect.type === 'answer') await keeper.answer(effect)
  else if (effect.type === 'close_input') await keeper.closeInput()
}

async function ignoreGone(work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!(error instanceof NfltrError) || error.code !== 'keeper_gone') throw error
  })
}

export function isEvent(type: string, fields: Readonly<Record<string, string>> = {}): (effect: TurnEffect) => boolean {
  return (effect) =>
    effect.type === 'event' &&
    effect.event.type === type &&
    Object.entries(fields).every(([name, value]) => effect.event.fields[name] === value)
}
