import type { Readable } from 'node:stream'
import type { Clock } from '../ports/clock.ts'
import type { Command } from './command.ts'
import type { JournalWriter } from './journal-writer.ts'
import { type Line, lineSplitter } from './lines.ts'

/** The command's output on its way into the journal. */
export interface CommandOutput {
  /** Holds the output back while the disk cannot take it: the command then waits in its write, and nothing is dropped. */
  setPressure(isUnderPressure: boolean): void
  /** Resolves when all that was written into the pipes is in the journal's hands. Call it when nothing runs any more. */
  drained(clock: Clock): Promise<void>
}

/** How long a pipe may stay silent, after everything ended, before it is given up: somebody else holds its other end. */
const drainQuietMs = 1_000

export function watchOutput(command: Command, journal: JournalWriter, onLine: (line: Buffer) => void): CommandOutput {
  const { stdout, stderr } = command
  const splitter = lineSplitter()
  let isUnderPressure = false
  let chunksSeen = 0

  /** When a command ends, Node lets its pipes flow whoever paused them: hold them back again. */
  function heedPressure(stream: Readable): void {
    chunksSeen += 1
    if (isUnderPressure) stream.pause()
  }

  function record(line: Line): void {
    if (line.type === 'cut') {
      journal.append({ type: 'stdout_cut', head: line.head, lineBytes: line.lineBytes })
      return
    }
    // A result is what everything is for: it is on disk before anything that follows it matters.
    if (isResult(line.bytes)) void journal.appendDurably({ type: 'stdout', line: line.bytes })
    else journal.append({ type: 'stdout', line: line.bytes })
    onLine(line.bytes)
  }

  stdout.on('data', (chunk: Buffer) => {
    heedPressure(stdout)
    for (const line of splitter.push(chunk)) record(line)
  })
  stderr.on('data', (chunk: Buffer) => {
    heedPressure(stderr)
    journal.append({ type: 'stderr', chunk })
  })
  const closed = [stdout, stderr].map(isClosed)

  async function drained(clock: Clock): Promise<void> {
    const giveUpWhenQuiet = (): void => {
      const seenBefore = chunksSeen
      // Timers run before the loop reads: after a time in which this process did not run, what is there to be read comes
      // only now. Silence counts if a look into the pipes brought nothing.
      setImmediate(() => {
        if (!isUnderPressure && chunksSeen === seenBefore && seenBefore === seenAtLastLook) {
          stdout.destroy()
          stderr.destroy()
          return
        }
        seenAtLastLook = chunksSeen
        timer = clock.after(drainQuietMs, giveUpWhenQuiet)
      })
    }
    let seenAtLastLook = -1
    let timer = clock.after(drainQuietMs, giveUpWhenQuiet)
    await Promise.all(closed)
    timer.cancel()
    for (const line of splitter.end()) record(line)
  }

  return {
    setPressure(next) {
      isUnderPressure = next
      for (const stream of [stdout, stderr]) {
        if (next) stream.pause()
        else stream.resume()
      }
    },
    drained,
  }
}

/** Over-careful on purpose: a line that only looks like a result is synced as one, which costs time and nothing else. */
function isResult(line: Buffer): boolean {
  return line.includes('"result"') && /"type"\s*:\s*"result"/.test(line.toString('latin1'))
}

function isClosed(stream: Readable): Promise<void> {
  return new Promise((resolve) => {
    stream.once('close', resolve)
    stream.once('end', resolve)
    stream.on('error', () => undefined)
  })
}
