import type { JournalBody } from '../src/core/journal.ts'
import type { KeeperLaunch } from '../src/ports/keepers.ts'
import type { DiskRecords } from '../src/store/disk-records.ts'
import { Journal } from './journal.ts'
import { Program, type ProgramInput, type ProgramLine, type Script } from './program.ts'
import type { DiskMood } from './store.ts'
import type { World } from './world.ts'

const utf8 = new TextEncoder()
const fromUtf8 = new TextDecoder()

/** What the world saw agent programs do: for checks. */
export interface Deeds {
  launched(attemptId: string): void
  took(attemptId: string, input: ProgramInput, script: Script): void
  /** A program gave its answer: its turn is about to end. */
  answered(text: string): void
}

/** One attempt's folder on a machine, its keeper while that lives, and the program that it runs. */
export class KeptAttempt {
  readonly attemptId: string
  readonly journal: Journal
  /** `empty`: the folder is there and nothing else. `void`: as that, and nothing ever will be. */
  state: 'empty' | 'void' | 'live' | 'ended' | 'dead' = 'empty'
  readonly #world: World
  readonly #machine: MachineKeepers
  readonly #deeds: Deeds
  #written = new Map<string, Promise<void>>()
  #answered = new Set<string>()
  #program: Program | undefined
  #isInputClosed = false
  #isStopping = false

  constructor(attemptId: string, options: { readonly machine: MachineKeepers; readonly deeds: Deeds }) {
    this.attemptId = attemptId
    this.#machine = options.machine
    this.#world = options.machine.world
    this.#deeds = options.deeds
    this.journal = new Journal(options.machine, this.#world.random(`journal/${attemptId}`), options.machine.mood)
  }

  get isInputClosed(): boolean {
    return this.#isInputClosed || this.state !== 'live'
  }

  /** The keeper's process begins. @returns a promise of its header being on disk */
  async start(launch: KeeperLaunch, bootId: string): Promise<void> {
    this.state = 'live'
    this.#world.note(`keeper of ${this.attemptId} started`)
    await this.journal.append({
      type: 'header',
      token: '0'.repeat(32),
      attemptId: this.attemptId,
      bootId,
      protocol: 1,
      command: [launch.program, ...launch.args],
      envNames: Object.keys(launch.env),
      wallMs: Math.floor(this.#world.nowMs),
      keeperPid: 1,
      keeperStart: '1',
      socketPath: `/sim/${this.attemptId}`,
      ...(launch.memo === undefined ? {} : { memo: launch.memo }),
      ...(launch.deadlineMs === undefined ? {} : { deadlineMs: launch.deadlineMs }),
    })
    void this.#launch(launch)
  }

  /** Writes into the program's input, once per id whatever is repeated. */
  write(messageId: string, bytes: Uint8Array): Promise<void> {
    const known = this.#written.get(messageId)
    if (known !== undefined) return known
    const done = this.journal.append({ type: 'stdin_intent', messageId, bytes }).then(() => {
      if (this.state === 'live') this.#program?.input(JSON.parse(fromUtf8.decode(bytes)) as ProgramInput)
    })
    this.#written.set(messageId, done)
    return done
  }

  async answer(requestId: string, bytes: Uint8Array): Promise<void> {
    if (this.#answered.has(requestId)) return
    this.#answered.add(requestId)
    await this.journal.append({ type: 'control_answer', requestId, by: 'node', bytes })
  }

  closeInput(): void {
    if (this.#isInputClosed) return
    this.#isInputClosed = true
    this.#append({ type: 'input_closed' })
    this.#program?.closeInput()
  }

  /** Ends the tree: the program falls to a signal a moment later. */
  stop(by: 'node' | 'deadline'): void {
    if (this.state !== 'live' || this.#isStopping) return
    this.#isStopping = true
    this.#append({ type: 'stopping', by })
    this.#machine.after(this.#world.random(`stop/${this.attemptId}`).next() * 400, () => {
      this.#program?.kill()
      this.#exit({ signal: 'SIGTERM' })
    })
  }

  /** The keeper dies without a word. Its program cannot go on without it. */
  kill(): void {
    if (this.state !== 'live') return
    this.state = 'dead'
    this.#program?.kill()
    this.journal.freeze()
    this.#world.note(`keeper of ${this.attemptId} killed`)
  }

  /** Power is gone: nothing runs, and the end of the journal may be lost. */
  losePower(): void {
    this.kill()
    if (this.journal.loseUnsynced() > 0) this.#world.count('power cut that shortened a journal')
    const hasExit = this.journal.records.some((record) => record.type === 'exit')
    if (this.state === 'ended' && !hasExit) this.state = 'dead'
    if (this.state === 'dead' && this.journal.records.length === 0) this.state = 'void'
  }

  async #launch(launch: KeeperLaunch): Promise<void> {
    await this.journal.append({ type: 'launching' })
    this.#deeds.launched(this.attemptId)
    const [sessionId = ''] = launch.args
    this.#program = new Program({
      machine: this.#machine,
      random: this.#world.random(`program/${this.attemptId}`),
      sessionId,
      write: (line) => this.#line(line),
      exit: (code) => this.#exit({ code }),
      took: (input, script) => this.#deeds.took(this.attemptId, input, script),
    })
    if (launch.deadlineMs !== undefined) this.#machine.after(launch.deadlineMs, () => this.stop('deadline'))
    await this.journal.append({ type: 'launched', pid: 2, start: '2' })
  }

  #line(line: ProgramLine): void {
    if (this.state !== 'live') return
    this.#world.note(`program ${this.attemptId} ${line.type} ${'id' in line ? line.id : ''}`)
    if (line.type === 'result') this.#deeds.answered(line.text)
    this.#append({ type: 'stdout', line: utf8.encode(JSON.stringify(line)) })
  }

  #exit(how: { readonly code?: number; readonly signal?: string }): void {
    if (this.state !== 'live') return
    this.state = 'ended'
    this.#world.note(`keeper of ${this.attemptId} ended`)
    const { shelf } = this.#machine
    const synced = this.journal.append({ type: 'exit', proof: 'scan_clean', ...how })
    if (shelf !== undefined) void synced.then(() => this.#putAway(shelf))
  }

  /** Nothing is asked of the keeper any more, and its program is gone: only the folder is left. */
  #putAway(shelf: DiskRecords): void {
    this.#program = undefined
    this.#written = new Map()
    this.#answered = new Set()
    this.journal.putAway(shelf, `journal/${this.attemptId}`)
  }

  #append(body: JournalBody): void {
    void this.journal.append(body)
  }
}

/** All attempts' folders of one machine. They outlive the node, and its keepers do. */
export class MachineKeepers {
  readonly world: World
  readonly attempts = new Map<string, KeptAttempt>()
  readonly mood: DiskMood
  /** Where journals go whose keepers have ended; undefined: they stay in memory. */
  readonly shelf: DiskRecords | undefined
  readonly #deeds: Deeds
  #boot = 1
  #isAsleep = false
  /** What came due while the machine slept, in order. */
  readonly #waiting: (() => void)[] = []
  readonly #name: string

  constructor(
    name: string,
    options: {
      readonly world: World
      readonly deeds: Deeds
      readonly mood: DiskMood
      readonly maxAgents: number
      readonly shelf?: DiskRecords
    },
  ) {
    const { world, deeds, maxAgents: allowed } = options
    this.#name = name
    this.world = world
    this.#deeds = {
      launched: (attemptId) => {
        deeds.launched(attemptId)
        world.tell({ type: 'turns_running', node: name, count: this.live.length, allowed })
      },
      took: (...what) => deeds.took(...what),
      answered: (...what) => deeds.answered(...what),
    }
    this.mood = options.mood
    this.shelf = options.shelf
  }

  get bootId(): string {
    return `boot-${this.#name}-${this.#boot}`
  }

  get live(): readonly KeptAttempt[] {
    return [...this.attempts.values()].filter(({ state }) => state === 'live')
  }

  /** Creates the folder, exclusively. @returns undefined where it is there already */
  claim(attemptId: string): KeptAttempt | undefined {
    if (this.attempts.has(attemptId)) return undefined
    const kept = new KeptAttempt(attemptId, { machine: this, deeds: this.#deeds })
    this.attempts.set(attemptId, kept)
    return kept
  }

  /** Keepers and programs stand still. */
  sleep(): void {
    this.#isAsleep = true
  }

  wake(): void {
    if (!this.#isAsleep) return
    this.#isAsleep = false
    for (const work of this.#waiting.splice(0)) this.world.after(0, work)
  }

  /** Runs `work` after `delayMs`, or when the machine wakes. */
  after(delayMs: number, work: () => void): void {
    this.world.after(delayMs, () => {
      if (this.#isAsleep) this.#waiting.push(work)
      else work()
    })
  }

  losePower(): void {
    this.#isAsleep = false
    this.#waiting.length = 0
    this.#boot += 1
    for (const kept of this.attempts.values()) kept.losePower()
  }
}
