import type { JournalRecord } from '../../../core/journal.ts'
import { limits } from '../../../core/limits.ts'
import type { TurnEffect, TurnInput } from '../../../ports/agent-driver.ts'
import { interruptLine, interruptPrefix, messageUuid, userLine } from './input-lines.ts'
import { onLine } from './lines.ts'
import { resultOf, type TurnEnd } from './outcome.ts'
import { type ClaudeTurn, hasFinalResult, isBusy, isOpen, type TurnStep, withMessage } from './state.ts'

/** How long the program may take to exit once its input is closed: a background task of its can keep it for ever. */
export const exitBoundMs = 10_000

/**
 * From SIGTERM to SIGKILL for a program that has not answered an interrupt: short, so that the whole stop ends within what
 * `stop_agent` waits for its node.
 */
const unansweredGraceMs = 500

/** How much of standard error is kept: its end, where programs say why they failed. */
const stderrKeptCharacters = 2_000

const decoder = new TextDecoder()

/**
 * Advances a turn of Claude Code by one input. Pure and total.
 *
 * The turn stays open until every message that was written came back (rule 22): the program takes messages in during its
 * work, or begins another run for them after its result. When all are settled, its input is closed, and it exits. A stop
 * interrupts it and withdraws what is queued; what does not answer in time is ended as a tree (rule 23).
 */
export function step(turn: ClaudeTurn, input: TurnInput): TurnStep {
  if (turn.isEnded) return { state: turn, effects: [] }
  switch (input.type) {
    case 'record':
      return onRecord(turn, input.record)
    case 'steer':
      return onSteer(turn, input)
    case 'stop':
      return onStop(turn, input.commandId)
    case 'woke':
      return onWoke(turn, input.token)
    case 'keeper_gone':
    case 'journal_damaged':
      return end(turn, { how: input.type, proof: input.proof })
  }
}

function onRecord(turn: ClaudeTurn, record: JournalRecord): TurnStep {
  switch (record.type) {
    case 'launched':
      return ask(turn, { messageId: turn.launch.firstMessageId, text: turn.launch.request.brief })
    case 'stdin_intent':
      return settle(noteIntent(turn, record.messageId))
    case 'stdout':
      return afterLine(turn, onLine(turn, record.line))
    case 'stdout_cut':
      return { state: { ...turn, isTruncated: true }, effects: [] }
    case 'stderr': {
      const stderr = `${turn.stderr}${decoder.decode(record.chunk)}`.slice(-stderrKeptCharacters)
      return { state: { ...turn, stderr }, effects: [] }
    }
    case 'input_closed':
      return { state: { ...turn, isInputClosed: true }, effects: [] }
    case 'stopping':
      return { state: { ...turn, isOverDeadline: turn.isOverDeadline || record.by === 'deadline' }, effects: [] }
    case 'launch_failed':
      return { state: { ...turn, launchError: record.message }, effects: [] }
    case 'exit': {
      const { code, signal, proof } = record
      return end(turn, {
        how: 'exit',
        proof,
        ...(code === undefined ? {} : { code }),
        ...(signal === undefined ? {} : { signal }),
      })
    }
    default:
      return { state: turn, effects: [] }
  }
}

/** What a line of the program means for what comes next. */
function afterLine(before: ClaudeTurn, line: TurnStep): TurnStep {
  const turn = line.state
  if (turn.failure !== undefined) {
    const isNew = before.failure === undefined
    return isNew ? append(line, { type: 'stop_tree', graceMs: limits.killGraceMs }) : line
  }
  if (turn.stop !== undefined && !turn.stop.isLate) return prepend(line.effects, pressStop(turn, before))
  return prepend(line.effects, settle(turn))
}

/**
 * A stop ends the input once a result came or nothing of ours is open. A program that has just started answers an
 * interrupt before it looks at the message in front of it, and then works on that: it is interrupted again.
 */
function pressStop(turn: ClaudeTurn, before: ClaudeTurn): TurnStep {
  if (turn.resultsCount > before.resultsCount || (turn.isInterruptAnswered && !turn.messages.some(isOpen))) {
    return closeInput(turn)
  }
  if (!turn.isInterruptAnswered || !isBusy(turn) || isBusy(before)) return { state: turn, effects: [] }
  return interrupt({ ...turn, isInterruptAnswered: false }, `${turn.stop?.commandId}_again`)
}

function interrupt(turn: ClaudeTurn, name: string): TurnStep {
  const requestId = `${interruptPrefix}${name}`
  return { state: turn, effects: [{ type: 'write', messageId: requestId, bytes: interruptLine(requestId) }] }
}

function onSteer(turn: ClaudeTurn, message: { readonly messageId: string; readonly text: string }): TurnStep {
  const known = turn.messages.some(({ messageId }) => messageId === message.messageId)
  if (known && !turn.messages.some((each) => each.messageId === message.messageId && each.state === 'asked')) {
    return { state: turn, effects: [] }
  }
  const isTooLate = turn.isInputClosed || turn.stop !== undefined || turn.failure !== undefined
  if (isTooLate || messageUuid(message.messageId) === undefined) {
    return { state: turn, effects: [{ type: 'message_state', messageId: message.messageId, state: 'not_taken' }] }
  }
  const asked = ask(turn, message)
  return prepend(asked.effects, settle(asked.state))
}

function onStop(turn: ClaudeTurn, commandId: string): TurnStep {
  if (turn.stop !== undefined) return { state: turn, effects: [] }
  // The result is there and its process only has to exit: it was first.
  const isLate = hasFinalResult(turn) && !turn.messages.some(isOpen)
  const stopped: ClaudeTurn = { ...turn, stop: { commandId, isLate } }
  if (isLate) return turn.isInputClosed ? { state: stopped, effects: [] } : closeInput(stopped)
  return append(interrupt(stopped, commandId), {
    type: 'wake_after',
    delayMs: limits.interruptBoundMs,
    token: 'interrupt',
  })
}

function onWoke(turn: ClaudeTurn, token: string): TurnStep {
  if (token === 'interrupt') {
    return { state: turn, effects: [{ type: 'stop_tree', graceMs: unansweredGraceMs }] }
  }
  if (token === 'exit') return { state: turn, effects: [{ type: 'stop_tree', graceMs: limits.killGraceMs }] }
  if (token !== unsettledToken(turn) || turn.isInputClosed || isBusy(turn)) return { state: turn, effects: [] }
  // What is queued now would still be worked on after the input has closed; it is reported as not taken, so withdraw it.
  const withdrawal = turn.messages.some(isOpen) ? interrupt(turn, token).effects : []
  return prepend(withdrawal, closeInput(turn))
}

/**
 * Closes the input when nothing is left to come, or sets a bound where only the program knows. Before the first result
 * there is a bound only where the program says that it is through with all it was given and says nothing more: its
 * message had been taken in by an earlier process of the session.
 */
function settle(turn: ClaudeTurn): TurnStep {
  const isIdle = !turn.isInputClosed && turn.failure === undefined && turn.stop === undefined && !isBusy(turn)
  const hasOpen = turn.messages.some(isOpen)
  const isThrough = turn.messages.length > 0 && !hasOpen
  if (!isIdle || (turn.last === undefined && !isThrough)) return { state: turn, effects: [] }
  if (turn.last !== undefined && !hasOpen) return closeInput(turn)
  const token = unsettledToken(turn)
  if (turn.armed === token) return { state: turn, effects: [] }
  return {
    state: { ...turn, armed: token },
    effects: [{ type: 'wake_after', delayMs: limits.messageBoundAfterResultMs, token }],
  }
}

/** A bound counts for the state it was set in: any result or message since then makes it void. */
function unsettledToken(turn: ClaudeTurn): string {
  return `unsettled_${turn.resultsCount}_${turn.messages.length}`
}

function closeInput(turn: ClaudeTurn): TurnStep {
  if (turn.isInputClosed) return { state: turn, effects: [] }
  return {
    state: { ...turn, isInputClosed: true },
    effects: [{ type: 'close_input' }, { type: 'wake_after', delayMs: exitBoundMs, token: 'exit' }],
  }
}

function ask(turn: ClaudeTurn, message: { readonly messageId: string; readonly text: string }): TurnStep {
  const { messageId, text } = message
  const uuid = messageUuid(messageId)
  if (uuid === undefined) return { state: turn, effects: [] }
  return {
    state: withMessage(turn, { messageId, uuid, state: 'asked' }),
    effects: [{ type: 'write', messageId, bytes: userLine({ uuid, text }) }],
  }
}

/** After a restart the journal alone tells of messages that were written before. */
function noteIntent(turn: ClaudeTurn, messageId: string): ClaudeTurn {
  const uuid = messageUuid(messageId)
  const known = turn.messages.find((message) => message.messageId === messageId)
  if (uuid === undefined || (known !== undefined && known.state !== 'asked')) return turn
  return withMessage(turn, { messageId, uuid, state: 'written' })
}

function end(turn: ClaudeTurn, how: TurnEnd): TurnStep {
  const state: ClaudeTurn = { ...turn, isEnded: true }
  return { state, effects: [{ type: 'ended', result: resultOf(state, how) }] }
}

function prepend(effects: readonly TurnEffect[], rest: TurnStep): TurnStep {
  return { state: rest.state, effects: [...effects, ...rest.effects] }
}

function append(first: TurnStep, effect: TurnEffect): TurnStep {
  return { state: first.state, effects: [...first.effects, effect] }
}
