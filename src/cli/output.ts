import { fstatSync, writeSync } from 'node:fs'
import { toNfltrError } from '../control/error-document.ts'
import { errorCodes } from '../core/errors.ts'
import { diskErrorOr, errorCode } from '../platform/files.ts'
import { printable } from './printable.ts'

/** What a shell shows of a program whose reader went away: 128 and the number of SIGPIPE. */
const readerGoneExit = 141

/**
 * Standard output. What could not be written ends this process at once: nobody may go on as if it had been read, so nothing
 * that the hub gave is confirmed after it. A reader that went away ends it quietly, anything else with its reason.
 */
export class Output {
  readonly #stream: typeof process.stdout
  #failureExit: number | undefined
  #isWatched = false

  constructor(stream: typeof process.stdout) {
    this.#stream = stream
  }

  /** The exit code of a failure that is being told: it stays that where the telling fails as well. */
  failing(exitCode: number): void {
    this.#failureExit = exitCode
  }

  write(text: string): void {
    this.#watch()
    // The runtime's own stream takes a write that a file had room for in part for a whole one.
    if (isFile(this.#stream)) this.#writeWhole(Buffer.from(text))
    else this.#stream.write(text)
  }

  /** Resolves once everything written so far has left this process. */
  async flushed(): Promise<void> {
    this.#watch()
    if (isFile(this.#stream)) return
    await new Promise<void>((resolve) => {
      this.#stream.write('', (error) => (error ? this.#lost(error) : resolve()))
    })
  }

  #writeWhole(bytes: Buffer): void {
    try {
      for (let done = 0; done < bytes.length; ) done += writeSync(this.#stream.fd, bytes, done)
    } catch (error) {
      this.#lost(error)
    }
  }

  /** From the first write on: a command that writes to the stream itself, as the adapter does, answers for it itself. */
  #watch(): void {
    if (this.#isWatched) return
    this.#isWatched = true
    this.#stream.on('error', (error) => this.#lost(error))
  }

  #lost(cause: unknown): never {
    const code = errorCode(cause)
    if (code === 'EPIPE' || code === 'ECONNRESET') process.exit(this.#failureExit ?? readerGoneExit)
    const error = toNfltrError(diskErrorOr(cause, 'Standard output'))
    process.stderr.write(`${printable(`nfltr: ${error.message}`)}\n`)
    if (error.hint !== undefined) process.stderr.write(`${printable(`  ${error.hint}`)}\n`)
    process.exit(this.#failureExit ?? errorCodes[error.code].exit)
  }
}

/** Whether writes go to a file or a device that is no terminal: those take part of a write where no room is left. */
function isFile({ fd, isTTY }: { readonly fd?: number; readonly isTTY?: boolean }): boolean {
  if (isTTY === true || fd === undefined) return false
  const stat = fstatSync(fd)
  return stat.isFile() || stat.isCharacterDevice()
}
