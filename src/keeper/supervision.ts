import type { JournalBody } from '../core/journal.ts'
import { limits } from '../core/limits.ts'
import { endTree } from '../platform/end-tree.ts'
import type { Clock } from '../ports/clock.ts'
import type { Command } from './command.ts'
import { type CommandInput, commandInput } from './input.ts'
import type { JournalWriter } from './journal-writer.ts'
import type { KeeperSpec } from './launch-spec.ts'
import { watchOutput } from './output.ts'
import { openRequests } from './requests.ts'

/** A running command under its keeper's eyes. */
export interface Supervision {
  readonly input: CommandInput
  /** Ends the process tree. Resolves when the journal has the stop on disk; the end itself shows as `exit`. */
  stop(by: 'node' | 'deadline', graceMs: number): Promise<void>
  /** The disk cannot keep up, or can again: holds the command's output back, or lets it flow. */
  setPressure(isUnderPressure: boolean): void
  /** Resolves with the record of the end when nothing of the attempt runs any more and all its output is recorded. */
  readonly ended: Promise<JournalBody>
}

export function superviseCommand(options: {
  readonly command: Command
  readonly journal: JournalWriter
  readonly clock: Clock
  readonly spec: KeeperSpec
}): Supervision {
  const { command, journal, clock, spec } = options
  const requests = openRequests({
    clock,
    answerBoundMs: spec.answerBoundMs,
    onOverdue: (requestId, answer) =>
      void input.answer(requestId, Buffer.from(answer), 'keeper').catch(() => undefined),
  })
  const input = commandInput({ stdin: command.stdin, journal, requests })
  const output = watchOutput(command, journal, (line) => requests.observe(line))
  let isStopping = false

  async function stop(by: 'node' | 'deadline', graceMs: number): Promise<void> {
    const recorded = isStopping ? Promise.resolve() : journal.appendDurably({ type: 'stopping', by })
    isStopping = true
    // The signals do not wait for the disk: a full one must not keep a stop from stopping.
    endTree(command.tree, { graceMs, clock }).catch(() => undefined)
    await recorded
  }

  const deadline =
    spec.deadlineMs === undefined
      ? undefined
      : clock.after(spec.deadlineMs, () => void stop('deadline', limits.killGraceMs))

  async function finish(): Promise<JournalBody> {
    const { code, signal } = await command.ended
    // What the command left behind is ended before its end is told: afterwards nobody would look (rule 21).
    const proof = await endTree(command.tree, { graceMs: limits.killGraceMs, clock })
    deadline?.cancel()
    requests.clear()
    await output.drained(clock)
    return {
      type: 'exit',
      ...(code === null ? {} : { code }),
      ...(signal === null ? {} : { signal }),
      proof,
    }
  }

  return { input, stop, setPressure: output.setPressure, ended: finish() }
}
