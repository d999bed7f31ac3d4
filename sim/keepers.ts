import { NfltrError } from '../src/core/errors.ts'
import type { ExitProof, JournalRecord } from '../src/core/journal.ts'
import type { FoundAttempt, Keeper, KeeperLaunch, Keepers } from '../src/ports/keepers.ts'
import { forever, type Life } from './life.ts'
import type { KeptAttempt, MachineKeepers } from './machine-keepers.ts'
import type { SeededRandom } from './random.ts'

/** The keepers of a machine as one run of its node reaches them. */
export class SimKeepers implements Keepers {
  readonly #machine: MachineKeepers
  readonly #life: Life
  readonly #random: SeededRandom

  constructor(machine: MachineKeepers, life: Life) {
    this.#machine = machine
    this.#life = life
    this.#random = life.world.random(`keepers/${life.name}`)
  }

  async launch(launch: KeeperLaunch): Promise<Keeper> {
    const { attemptId } = launch
    await this.#trip()
    const kept = this.#machine.claim(attemptId)
    if (kept === undefined) {
      throw new NfltrError('already_exists', `The attempt ${attemptId} was claimed before.`)
    }
    await this.#trip()
    // Somebody looked around meanwhile and took it for abandoned.
    if (kept.state !== 'empty') throw new NfltrError('launch_failed', `The folder of ${attemptId} was declared void.`)
    const died = this.#whenDead(kept).catch(() => {
      throw new NfltrError('launch_failed', `The keeper of ${attemptId} ended before it was ready.`)
    })
    await Promise.race([kept.start(launch, this.#machine.bootId), died])
    await this.#trip()
    return this.#hold(kept)
  }

  async find(): Promise<readonly FoundAttempt[]> {
    await this.#trip()
    return [...this.#machine.attempts.values()].map((kept) => {
      declareVoid(kept)
      return { attemptId: kept.attemptId, state: stateOf(kept) }
    })
  }

  async adopt(attemptId: string): Promise<Keeper> {
    await this.#trip()
    const kept = this.#machine.attempts.get(attemptId)
    if (kept === undefined) throw new NfltrError('not_found', `The attempt ${attemptId} has no folder.`)
    declareVoid(kept)
    return this.#hold(kept)
  }

  async sweep(attemptId: string): Promise<ExitProof> {
    await this.#trip()
    const kept = this.#machine.attempts.get(attemptId)
    if (kept !== undefined) declareVoid(kept)
    kept?.stop('node')
    await this.#life.delayed(500, () => undefined)
    if (kept?.state === 'live') throw new NfltrError('timed_out', 'Something of the attempt still ran.')
    return 'scan_clean'
  }

  async remove(attemptId: string): Promise<void> {
    await this.#trip()
    const kept = this.#machine.attempts.get(attemptId)
    if (kept === undefined) throw new NfltrError('not_found', `The attempt ${attemptId} has no folder.`)
    if (kept.state === 'live') throw new NfltrError('stopping', 'Its keeper runs.')
    this.#machine.attempts.delete(attemptId)
  }

  #hold(kept: KeptAttempt): Keeper {
    const letGo = new AbortController()
    const request = async (work: () => Promise<void> | undefined): Promise<void> => {
      await this.#trip()
      if (kept.isInputClosed) throw gone(kept)
      await Promise.race([work(), this.#whenDead(kept)])
      await this.#trip()
      if (!this.#life.isAlive) await forever()
    }
    return {
      attemptId: kept.attemptId,
      records: ({ fromOffset, signal }) => this.#records(kept, fromOffset, AbortSignal.any([signal, letGo.signal])),
      write: ({ messageId, bytes }) => request(() => kept.write(messageId, bytes)),
      answer: ({ requestId, bytes }) => request(() => kept.answer(requestId, bytes)),
      closeInput: () => request(async () => kept.closeInput()),
      stop: async () => {
        await this.#trip()
        if (kept.state !== 'live') throw gone(kept)
        kept.stop('node')
      },
      [Symbol.asyncDispose]: async () => letGo.abort(),
    }
  }

  async *#records(kept: KeptAttempt, fromOffset: number, signal: AbortSignal): AsyncIterable<JournalRecord> {
    let offset = fromOffset
    if (kept.state === 'void') throw gone(kept)
    for (;;) {
      const isOver = kept.state === 'dead'
      if (isOver) kept.journal.syncRest()
      const { records, synced } = kept.journal
      for (const record of records.slice(0, synced)) {
        if (record.nextOffset <= offset) continue
        await this.#trip()
        if (signal.aborted) return
        yield record
        offset = record.nextOffset
        if (record.type === 'exit') return
      }
      if (signal.aborted) return
      if (isOver && kept.journal.synced === synced) throw gone(kept)
      const isNews = kept.journal.synced !== synced || isOver !== (kept.state === 'dead')
      if (!isNews) await this.#changed(kept, signal)
    }
  }

  #changed(kept: KeptAttempt, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        stop()
        signal.removeEventListener('abort', finish)
        this.#life.reach(resolve)
      }
      const stop = kept.journal.onChange(finish)
      signal.addEventListener('abort', finish, { once: true })
    })
  }

  #whenDead(kept: KeptAttempt): Promise<never> {
    return new Promise((_resolve, reject) => {
      const stop = kept.journal.onChange(() => {
        if (kept.state === 'live') return
        stop()
        this.#life.reach(() => reject(gone(kept)))
      })
    })
  }

  /** What lies between a node and a keeper: a moment, in which the node may die. */
  #trip(): Promise<void> {
    if (!this.#life.act()) return forever()
    return this.#life.delayed(0.05 + this.#random.next() * 2, () => undefined)
  }
}

function stateOf(kept: KeptAttempt): FoundAttempt['state'] {
  if (kept.state === 'live' || kept.state === 'ended') return kept.state
  const mayHaveLaunched = kept.journal.records.some((record) => record.type === 'launching')
  return mayHaveLaunched ? 'gone' : 'never_launched'
}

/** A folder whose keeper never came to be gets none any more. */
function declareVoid(kept: KeptAttempt): void {
  if (kept.state === 'empty') kept.state = 'void'
}

function gone(kept: KeptAttempt): NfltrError {
  return new NfltrError('keeper_gone', `The keeper of ${kept.attemptId} was gone.`)
}
