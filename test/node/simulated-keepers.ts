import { NfltrError } from '../../src/core/errors.ts'
import type { ExitProof, JournalBody, JournalRecord } from '../../src/core/journal.ts'
import type { FoundAttempt, Keeper, KeeperLaunch, Keepers } from '../../src/ports/keepers.ts'

/** What a simulated program may do. All of it lands in its journal at once. */
export interface ProgramIo {
  readonly launch: KeeperLaunch
  line(text: string): void
  exit(code?: number): void
}

/** A simulated program: told of its start, of each line of input, of the input's end and of a stop. */
export interface Program {
  started?(io: ProgramIo): void
  input?(io: ProgramIo, line: string): void
  inputClosed?(io: ProgramIo): void
  /** Default: it exits at once. */
  stopped?(io: ProgramIo): void
}

interface SimulatedAttempt {
  readonly launch: KeeperLaunch
  readonly io: ProgramIo
  readonly journal: JournalRecord[]
  readonly written: Set<string>
  readonly answered: Set<string>
  state: FoundAttempt['state']
  /** Set where the journal can be read up to here only. */
  damagedAtOffset: number | undefined
  isInputClosed: boolean
  bytes: number
  wake: (() => void)[]
}

/**
 * The keepers of one simulated machine. They outlive every node: `keepers()` gives a node its way in, and what a node that
 * was killed had asked for stays. Journals are in memory and never lose a record, but where a test takes one away.
 */
export class SimulatedMachine {
  readonly attempts = new Map<string, SimulatedAttempt>()
  /** Launches of commands, in order: an id that is in here twice is a turn that ran twice. */
  readonly launches: string[] = []
  readonly swept: string[] = []
  proof: ExitProof = 'cgroup_empty'
  /** Stands in for the next launches: throws, or never comes back. */
  launchInstead: ((attemptId: string) => Promise<never>) | undefined
  readonly #folders = new Map<string, FoundAttempt['state']>()
  #nowMs = 0
  readonly #program: (launch: KeeperLaunch) => Program

  constructor(program: (launch: KeeperLaunch) => Program) {
    this.#program = program
  }

  keepers(): Keepers {
    return {
      launch: async (launch) => (await this.launchInstead?.(launch.attemptId)) ?? this.#launch(launch),
      find: async () => [
        ...[...this.#folders].map(([attemptId, state]) => ({ attemptId, state })),
        ...[...this.attempts].map(([attemptId, { state, damagedAtOffset }]) => ({
          attemptId,
          state,
          ...(damagedAtOffset === undefined ? {} : { damagedAtOffset }),
        })),
      ],
      adopt: async (attemptId) => this.#keeper(attemptId, this.#attempt(attemptId)),
      sweep: async (attemptId) => {
        this.swept.push(attemptId)
        const attempt = this.attempts.get(attemptId)
        if (attempt?.state === 'live') this.#end(attemptId, 'gone')
        return this.proof
      },
      remove: async (attemptId) => {
        this.#attempt(attemptId)
        this.attempts.delete(attemptId)
      },
    }
  }

  /** A folder whose keeper died before it had said that it launches anything, or after. */
  leaveUnlaunched(attemptId: string, state: 'never_launched' | 'gone' = 'never_launched'): void {
    this.#folders.set(attemptId, state)
  }

  /** As an earlier version, or a brief that is too large, leaves it. */
  loseMemo(attemptId: string): void {
    const { journal } = this.#attempt(attemptId)
    const [header] = journal
    if (header?.type !== 'header') throw new Error('the journal has no header')
    const { memo: _, ...rest } = header
    journal[0] = rest
  }

  /** The program writes a line. */
  emit(attemptId: string, line: string): void {
    this.#attempt(attemptId).io.line(line)
  }

  exit(attemptId: string, code = 0): void {
    this.#attempt(attemptId).io.exit(code)
  }

  /** Keeper and program are killed: the journal ends where it is. */
  killKeeper(attemptId: string): void {
    this.#end(attemptId, 'gone')
  }

  /** From here on the journal cannot be read. */
  damage(attemptId: string, atRecord: number): void {
    const attempt = this.#attempt(attemptId)
    attempt.damagedAtOffset = attempt.journal[atRecord - 1]?.nextOffset ?? 0
    this.#wake(attempt)
  }

  /** What was written into the program's input, by message id, in order. */
  inputs(attemptId: string): readonly string[] {
    return this.#attempt(attemptId).journal.flatMap((record) =>
      record.type === 'stdin_intent' ? [record.messageId] : [],
    )
  }

  #attempt(attemptId: string): SimulatedAttempt {
    const attempt = this.attempts.get(attemptId)
    if (attempt === undefined) throw new NfltrError('not_found', `There was no attempt ${attemptId}.`)
    return attempt
  }

  #launch(launch: KeeperLaunch): Keeper {
    const { attemptId } = launch
    if (this.attempts.has(attemptId)) throw new NfltrError('already_exists', `${attemptId} was claimed before.`)
    const program = this.#program(launch)
    const io: ProgramIo = {
      launch,
      line: (text) => {
        if (attempt.state === 'live') this.#append(attempt, { type: 'stdout', line: new TextEncoder().encode(text) })
      },
      exit: (code = 0) => {
        if (attempt.state !== 'live') return
        this.#append(attempt, { type: 'exit', code, proof: this.proof })
        attempt.state = 'ended'
        this.#wake(attempt)
      },
    }
    const attempt: SimulatedAttempt = {
      launch,
      io,
      journal: [],
      written: new Set(),
      answered: new Set(),
      state: 'live',
      damagedAtOffset: undefined,
      isInputClosed: false,
      bytes: 0,
      wake: [],
    }
    this.attempts.set(attemptId, attempt)
    this.launches.push(attemptId)
    this.#programs.set(attemptId, program)
    this.#append(attempt, {
      type: 'header',
      token: '0'.repeat(32),
      attemptId,
      bootId: 'boot-1',
      protocol: 1,
      command: [launch.program, ...launch.args],
      envNames: Object.keys(launch.env),
      wallMs: 0,
      keeperPid: 1,
      keeperStart: '1',
      socketPath: `/simulated/${attemptId}`,
      ...(launch.memo === undefined ? {} : { memo: launch.memo }),
    })
    this.#append(attempt, { type: 'launching' })
    this.#append(attempt, { type: 'launched', pid: 4000 + this.launches.length, start: '1' })
    program.started?.(io)
    return this.#keeper(attemptId, attempt)
  }

  readonly #programs = new Map<string, Program>()

  #keeper(attemptId: string, attempt: SimulatedAttempt): Keeper {
    const alive = (): void => {
      if (attempt.state !== 'live') throw new NfltrError('keeper_gone', `The keeper of ${attemptId} was gone.`)
    }
    const program = this.#programs.get(attemptId)
    return {
      attemptId,
      records: ({ fromOffset, signal }) => this.#records(attemptId, attempt, { fromOffset, signal }),
      write: async ({ messageId, bytes }) => {
        alive()
        if (attempt.written.has(messageId)) return
        if (attempt.isInputClosed) throw new NfltrError('keeper_gone', 'The input was closed.')
        attempt.written.add(messageId)
        this.#append(attempt, { type: 'stdin_intent', messageId, bytes })
        program?.input?.(attempt.io, new TextDecoder().decode(bytes))
      },
      answer: async ({ requestId, bytes }) => {
        alive()
        if (attempt.answered.has(requestId)) return
        attempt.answered.add(requestId)
        this.#append(attempt, { type: 'control_answer', requestId, by: 'node', bytes })
        program?.input?.(attempt.io, new TextDecoder().decode(bytes))
      },
      closeInput: async () => {
        alive()
        if (attempt.isInputClosed) return
        attempt.isInputClosed = true
        this.#append(attempt, { type: 'input_closed' })
        program?.inputClosed?.(attempt.io)
      },
      stop: async () => {
        alive()
        this.#append(attempt, { type: 'stopping', by: 'node' })
        if (program?.stopped === undefined) attempt.io.exit(143)
        else program.stopped(attempt.io)
      },
      [Symbol.asyncDispose]: async () => undefined,
    }
  }

  async *#records(
    attemptId: string,
    attempt: SimulatedAttempt,
    options: { readonly fromOffset: number; readonly signal: AbortSignal },
  ): AsyncIterable<JournalRecord> {
    let next = attempt.journal.findIndex((record) => record.nextOffset > options.fromOffset)
    if (next < 0) next = attempt.journal.length
    while (!options.signal.aborted) {
      const record = attempt.journal[next]
      const { damagedAtOffset } = attempt
      if (damagedAtOffset !== undefined && (record === undefined || record.nextOffset > damagedAtOffset)) {
        throw new NfltrError('journal_damaged', 'A record did not check.', { details: { offset: damagedAtOffset } })
      }
      if (record !== undefined) {
        next += 1
        yield record
        if (record.type === 'exit') return
      } else if (attempt.state === 'live') {
        await new Promise<void>((resolve) => {
          attempt.wake.push(resolve)
          options.signal.addEventListener('abort', () => resolve(), { once: true })
        })
      } else {
        throw new NfltrError('keeper_gone', `The keeper of ${attemptId} died.`)
      }
    }
  }

  #append(attempt: SimulatedAttempt, body: JournalBody): void {
    attempt.bytes += 100
    this.#nowMs += 1
    attempt.journal.push({ ...body, nextOffset: attempt.bytes, atMs: this.#nowMs })
    this.#wake(attempt)
  }

  #end(attemptId: string, state: FoundAttempt['state']): void {
    const attempt = this.#attempt(attemptId)
    attempt.state = state
    this.#wake(attempt)
  }

  #wake(attempt: SimulatedAttempt): void {
    for (const resume of attempt.wake.splice(0)) resume()
  }
}
