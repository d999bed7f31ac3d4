import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { noUsage } from '../core/model.ts'
import { later, resultReservedBytes } from '../core/node-attempt-claim.ts'
import { drivenInputs } from '../core/node-attempt-commands.ts'
import type { NodeAttempt, TurnPlace } from '../core/node-attempt-state.ts'
import { directoryHolder } from '../core/slots.ts'
import type { PreparedLaunch } from '../ports/agent-driver.ts'
import type { Keeper } from '../ports/keepers.ts'
import type { Attempts } from './attempts.ts'
import { absentKeeper, follow, pause, prove } from './follow.ts'
import { memoText } from './forgotten.ts'
import type { NodePorts } from './ports.ts'
import type { HubRecord } from './records.ts'
import { Turn, type TurnHost } from './turn.ts'
import { declineOf, firstMessageId, launchOf, Refused } from './turn-launch.ts'

/** Room that a turn needs for its journal, its result and its work before it is taken in, in bytes. @see docs/reference/limits.md */
export const diskFreeMinBytes = 64 * 1024 * 1024

const relaunchMs = 1_000

/** Brings claimed attempts to life and follows them. One turn per attempt; the turns of a former run are taken over. */
export class Launches {
  readonly #ports: NodePorts
  readonly #attempts: Attempts
  readonly #hubOf: (hubId: string) => HubRecord | undefined
  readonly #turns = new Map<string, Turn>()
  readonly #prepared = new Map<string, PreparedLaunch>()
  readonly #stopping = new AbortController()
  readonly #running = new Set<Promise<void>>()

  constructor(ports: NodePorts, attempts: Attempts, hubOf: (hubId: string) => HubRecord | undefined) {
    this.#ports = ports
    this.#attempts = attempts
    this.#hubOf = hubOf
  }

  turn(attemptId: string): Turn | undefined {
    return this.#turns.get(attemptId)
  }

  /** Makes the folders of a claimed attempt and asks the driver what is to be run. */
  prepare(attemptId: string): void {
    this.#run(() => this.#prepare(attemptId))
  }

  /** Starts the keeper of an attempt whose launch is on disk. */
  launch(attemptId: string): void {
    this.#run(() => this.#launch(attemptId))
  }

  /** Takes a former run's attempt over. Without a keeper there is only its end left to prove. */
  takeOver(attemptId: string, hasKeeper: boolean): void {
    this.#run(async () => {
      const { signal } = this.#stopping
      while (hasKeeper && !signal.aborted) {
        try {
          return await this.#follow(attemptId, await this.#ports.keepers.adopt(attemptId))
        } catch (error) {
          if (error instanceof NfltrError && error.code === 'not_found') break
          await pause(this.#ports.clock, relaunchMs, signal)
        }
      }
      await this.#follow(attemptId, absentKeeper(attemptId))
    })
  }

  /** The attempt has ended: its turn lets go. */
  forget(attemptId: string): void {
    this.#turns.get(attemptId)?.close()
    this.#turns.delete(attemptId)
    this.#prepared.delete(attemptId)
  }

  /** Stops following. Keepers and their programs run on. */
  async close(): Promise<void> {
    this.#stopping.abort()
    for (const turn of this.#turns.values()) turn.close()
    await Promise.allSettled(this.#running)
  }

  #run(work: () => Promise<void>): void {
    if (this.#stopping.signal.aborted) return
    const running = work().catch((error: unknown) => {
      // The store failed, which ends the process in its own way; the next run begins where this one stood.
      this.#ports.note?.({ event: 'turn_failed', fields: { error: String(error) } })
    })
    this.#running.add(running)
    void running.finally(() => this.#running.delete(running))
  }

  async #prepare(attemptId: string): Promise<void> {
    const state = this.#attempts.get(attemptId)
    const { claim } = state ?? {}
    if (state?.phase !== 'claimed' || claim === undefined) return
    const subject = { hubId: state.hubId, attemptId }
    try {
      const place = await this.#makePlace(state)
      this.#prepared.set(attemptId, await this.#ports.driver.prepare(launchOf(state, place)))
      await this.#ports.engine.transact((tx) => this.#attempts.dispatch(tx, subject, { type: 'prepared', place }))
    } catch (error) {
      const atMs = this.#ports.clock.wallMs()
      const decline = declineOf(error)
      await this.#ports.engine.transact((tx) =>
        this.#attempts.dispatch(tx, subject, { type: 'not_prepared', decline, atMs }),
      )
    }
  }

  async #makePlace(state: NodeAttempt): Promise<TurnPlace> {
    const { workspaces, settings, peers } = this.#ports
    const { agentId, attemptId } = state.ref
    const agent = this.#attempts.agent(agentId)
    const isContinuation = state.claim?.resumeSessionId !== undefined
    // Every turn that is open has room for its result, this one too (rule 28).
    const reservedBytes = this.#attempts.slots.held.size * resultReservedBytes
    if ((await workspaces.freeBytes()) < diskFreeMinBytes + reservedBytes) {
      throw new Refused(later('disk_full', 'The disk of this machine is almost full.'))
    }
    const dir = isContinuation ? agent?.dir : state.claim?.dir
    const workspace = await workspaces.prepare({
      agentId,
      attemptId,
      originAttemptId: isContinuation ? (agent?.originAttemptId ?? attemptId) : attemptId,
      ...(dir === undefined ? {} : { dir }),
      ...(isContinuation && agent?.workspace !== undefined ? { knownPath: agent.workspace } : {}),
    })
    // From the look to the note nothing else runs, so two turns never get one folder.
    if (directoryHolder(this.#attempts.slots, { attemptId, directory: workspace.path }) !== undefined) {
      throw new Refused(later('dir_busy', 'Another agent is working in this folder.'))
    }
    this.#attempts.occupy(attemptId, workspace.path)
    return {
      workspace: workspace.path,
      privateDir: workspace.privateDir,
      tmpDir: workspace.tmpDir,
      machineName: peers.self.name,
      firstMessageId: firstMessageId(attemptId),
      allowAllTools: settings.allowAllTools !== false,
    }
  }

  /**
   * At most one keeper ever: its folder is created exclusively and durably before anything is started, so a launch that is
   * repeated (after a crash, or by a node whose store was put back in time) finds it and takes over what is there.
   */
  async #launch(attemptId: string): Promise<void> {
    const state = this.#attempts.get(attemptId)
    if (state?.phase !== 'launching' || state.place === undefined) return
    let keeper: Keeper
    try {
      const prepared = this.#prepared.get(attemptId) ?? (await this.#ports.driver.prepare(launchOf(state, state.place)))
      this.#prepared.delete(attemptId)
      const memo = memoText(state, this.#hubOf(state.hubId))
      keeper = await this.#ports.keepers.launch({
        attemptId,
        ...prepared,
        ...(memo === undefined ? {} : { memo }),
        ...(state.claim?.request.deadlineMs === undefined ? {} : { deadlineMs: state.claim.request.deadlineMs }),
        answerBoundMs: limits.answerBoundMs,
      })
    } catch (error) {
      if (error instanceof NfltrError && error.code === 'already_exists') return this.takeOver(attemptId, true)
      return this.#notLaunched(state, error)
    }
    await this.#follow(attemptId, keeper)
  }

  /**
   * Ends a turn of which a former run left a folder whose journal shows that no process was started, and whose keeper is gone:
   * none ever will be. The hub may place it again.
   */
  neverLaunched(attemptId: string): void {
    this.#run(async () => {
      const state = this.#attempts.get(attemptId)
      if (state?.phase !== 'launching') return
      const message = 'Its keeper ended before it had started anything.'
      await this.#notLaunched(state, new NfltrError('launch_failed', message))
    })
  }

  /** Whether the journal shows that no process of the attempt was ever started. Only once its folder takes no keeper any more. */
  async #isUnlaunched(attemptId: string): Promise<boolean> {
    const found = (await this.#ports.keepers.find()).find((attempt) => attempt.attemptId === attemptId)
    return found === undefined || found.state === 'never_launched'
  }

  async #notLaunched(state: NodeAttempt, error: unknown): Promise<void> {
    const { attemptId } = state.ref
    const proof = await prove(this.#ports, attemptId, this.#stopping.signal)
    if (proof === undefined) return
    const { message, reason } = declineOf(error)
    const isUnlaunched = await this.#isUnlaunched(attemptId)
    const atMs = this.#ports.clock.wallMs()
    await this.#ports.engine.transact((tx) =>
      this.#attempts.dispatch(
        tx,
        { hubId: state.hubId, attemptId },
        {
          type: 'ended',
          atMs,
          result: {
            outcome: isUnlaunched ? 'rejected' : 'failed',
            reason: reason === 'workspace' ? (isUnlaunched ? 'declined' : 'crashed') : reason,
            text: '',
            hint: message,
            denied: [],
            usage: noUsage,
            messages: [],
            exitProof: proof,
            details: { end: 'not_launched' },
          },
        },
      ),
    )
  }

  async #follow(attemptId: string, keeper: Keeper): Promise<void> {
    await using held = keeper
    const state = this.#attempts.get(attemptId)
    if (state?.place === undefined || (state.phase !== 'launching' && state.phase !== 'running')) return
    const { driver, clock } = this.#ports
    const turn = new Turn({
      host: this.#hostOf(state),
      driver,
      clock,
      keeper: held,
      launch: launchOf(state, state.place),
      resumeAt: state.journalOffset,
      inputs: drivenInputs(state),
    })
    this.#turns.set(attemptId, turn)
    await follow(this.#ports, { turn, keeper: held, signal: this.#stopping.signal })
  }

  #hostOf(state: NodeAttempt): TurnHost {
    const { attemptId } = state.ref
    const subject = { hubId: state.hubId, attemptId }
    return {
      transact: (decide) => this.#ports.engine.transact(decide),
      dispatch: (tx, event) => {
        this.#attempts.dispatch(tx, subject, event)
        if (event.type === 'session_ready') this.#attempts.agentReady(tx, attemptId)
      },
      sendEvents: (tx, events) => this.#attempts.sendEvents(tx, attemptId, events),
      note: (event, fields) => this.#ports.note?.({ event, fields }),
    }
  }
}
