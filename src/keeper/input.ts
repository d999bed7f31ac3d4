import type { Writable } from 'node:stream'
import { NfltrError } from '../core/errors.ts'
import type { JournalWriter } from './journal-writer.ts'
import type { OpenRequests } from './requests.ts'

/** The command's standard input: one writer, each message once, nothing written that the journal does not know. */
export interface CommandInput {
  /**
   * Writes a message unless its id was written before; then waits for that one.
   *
   * @throws {NfltrError} `keeper_gone` where the input is closed; `queue_full`
   */
  write(messageId: string, bytes: Uint8Array): Promise<void>
  /** Answers an open request; does nothing where it is not open. */
  answer(requestId: string, bytes: Uint8Array, by: 'node' | 'keeper'): Promise<void>
  /** Closes the input behind what was written before. */
  close(): Promise<void>
}

/** One turn's messages are counted on fingers; this only bounds what a mad node could do. */
const messagesMax = 10_000

export function commandInput(options: {
  readonly stdin: Writable
  readonly journal: JournalWriter
  readonly requests: OpenRequests
}): CommandInput {
  const { stdin, journal, requests } = options
  const written = new Map<string, Promise<void>>()
  let queue: Promise<unknown> = Promise.resolve()
  let isClosed = false
  let isClosing = false

  // A command that ends or closes its input breaks the pipe: each write hears of it by itself.
  stdin.on('error', () => undefined)
  stdin.once('close', noteClosed)

  function noteClosed(): void {
    if (isClosed) return
    isClosed = true
    journal.append({ type: 'input_closed' })
  }

  function enqueue(work: () => Promise<void>): Promise<void> {
    const done = queue.then(work)
    queue = done.catch(() => undefined)
    return done
  }

  function refuseIfClosed(): void {
    if (isClosed || isClosing || !stdin.writable) {
      throw new NfltrError('keeper_gone', 'The command takes no more input: its standard input is closed.')
    }
  }

  async function put(bytes: Uint8Array): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      stdin.write(bytes, (error) => {
        if (error === null || error === undefined) resolve()
        else reject(new NfltrError('keeper_gone', 'The command closed its standard input.', { cause: error }))
      })
    })
  }

  return {
    write(messageId, bytes) {
      const earlier = written.get(messageId)
      if (earlier !== undefined) return earlier
      if (written.size >= messagesMax) {
        return Promise.reject(
          new NfltrError('queue_full', `More than ${messagesMax} messages were written into one turn.`),
        )
      }
      const done = enqueue(async () => {
        refuseIfClosed()
        await journal.appendDurably({ type: 'stdin_intent', messageId, bytes })
        await put(bytes)
      })
      written.set(messageId, done)
      return done
    },
    answer: (requestId, bytes, by) => {
      // Settled at once, so that of two answers, or of the node's and the keeper's, only the first is written.
      if (by === 'node' && !requests.settle(requestId)) return Promise.resolve()
      return enqueue(async () => {
        refuseIfClosed()
        await journal.appendDurably({ type: 'control_answer', requestId, by, bytes })
        await put(bytes)
      })
    },
    close: () =>
      enqueue(async () => {
        if (isClosed || isClosing) return
        isClosing = true
        await journal.appendDurably({ type: 'input_closed' })
        isClosed = true
        stdin.end()
      }),
  }
}
