import type { JournalRecord } from '../core/journal.ts'
import type { DriverInput } from '../core/node-attempt-state.ts'
import type { TurnEffect } from '../ports/agent-driver.ts'
import type { KeeperAction } from './keeper-hands.ts'

type Wake = Extract<TurnEffect, { type: 'wake_after' }>

/**
 * Reads the part of a journal again whose consequences are on disk already. Log lines, states and results of it are thrown
 * away: they went into the same batch as the offset. What was asked of the keeper is not, since it happens after that
 * batch and may have been lost with the node; what the journal shows as done is crossed out, and the rest is asked again,
 * which does no harm where it was done.
 */
export class Replay {
  readonly untilOffset: number
  /** What the driver was given besides the journal, and where in it; in that order. */
  readonly #inputs: { readonly at: number; readonly input: DriverInput }[]
  readonly #actions: KeeperAction[] = []
  readonly #wakes = new Map<string, Wake>()

  constructor(untilOffset: number, inputs: readonly { readonly at: number; readonly input: DriverInput }[]) {
    this.untilOffset = untilOffset
    this.#inputs = [...inputs]
  }

  covers(record: JournalRecord): boolean {
    return record.nextOffset <= this.untilOffset
  }

  /** Inputs that the driver had before the first byte behind `offset` was read, each once. */
  inputsUpTo(offset: number): readonly DriverInput[] {
    const due = this.#inputs.filter(({ at }) => at <= offset)
    this.#inputs.splice(0, due.length)
    return due.map(({ input }) => input)
  }

  cross(record: JournalRecord): void {
    this.#drop((action) => isDone(action, record))
  }

  /** A bound that ran out is over: its timer is not owed any more. */
  ranOut(input: DriverInput): void {
    if (input.type === 'woke') this.#wakes.delete(input.token)
  }

  owe(effects: readonly TurnEffect[]): void {
    for (const effect of effects) {
      if (effect.type === 'wake_after') this.#wakes.set(effect.token, effect)
      else if (isAction(effect)) this.#actions.push(effect)
    }
  }

  /** Whatever may not have been carried out, in its order; timers start anew, and a late one is normal. */
  owed(): readonly (KeeperAction | Wake)[] {
    return [...this.#actions, ...this.#wakes.values()]
  }

  #drop(isDoneNow: (action: KeeperAction) => boolean): void {
    for (let index = this.#actions.length - 1; index >= 0; index -= 1) {
      const action = this.#actions[index]
      if (action !== undefined && isDoneNow(action)) this.#actions.splice(index, 1)
    }
  }
}

function isAction(effect: TurnEffect): effect is KeeperAction {
  return (
    effect.type === 'write' || effect.type === 'answer' || effect.type === 'close_input' || effect.type === 'stop_tree'
  )
}

function isDone(action: KeeperAction, record: JournalRecord): boolean {
  switch (action.type) {
    case 'write':
      return record.type === 'stdin_intent' && record.messageId === action.messageId
    case 'answer':
      return record.type === 'control_answer' && record.requestId === action.requestId
    case 'close_input':
      return record.type === 'input_closed'
    case 'stop_tree':
      return record.type === 'stopping' && record.by === 'node'
  }
}
